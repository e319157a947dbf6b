import numpy as np
import pytest
from boards import Solver, detour, draw_instances, optimal

from envgen.breakdown import paired_difference
from envgen.dataset import USUAL
from envgen.errors import DataError
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.verifier import FailureCategory
from policy.chat.contract import Sampling
from policy.evaluation import evaluate, gains, valid_gains
from policy.rollouts import Rollout

INSTANCES = draw_instances(20)
GREEDY = Sampling(max_tokens=40)


def rollouts(
    respond=optimal, style: PromptStyle = PromptStyle.COMPACT, instances: list[Instance] = INSTANCES
) -> list[Rollout]:
    return evaluate(Solver(instances, style, respond), USUAL.load(), instances, style, GREEDY)


@pytest.mark.parametrize("style", PromptStyle)
def test_optimal_plans_are_optimal_in_order(style: PromptStyle):
    found = rollouts(style=style)
    assert [r.instance for r in found] == INSTANCES
    assert all(r.verdict.valid and r.verdict.optimal for r in found)
    assert [r.completion for r in found] == [optimal(i) for i in INSTANCES]


def test_detours_are_valid_but_not_optimal():
    assert all(r.verdict.valid and not r.verdict.optimal for r in rollouts(detour))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I give up.",
        "Agent 0: (0,0)",
        "Agent 7: (0,0)",
        "{" * 10_000,
        "Agent 0: (٠,١)\nAgent 1: (0,0)",
        "\x00\ud7ff",
    ],
)
def test_garbage_is_a_parse_error(text: str):
    found = rollouts(lambda instance: text)
    assert {r.verdict.category for r in found} == {FailureCategory.PARSE_ERROR}
    assert all(r.verdict.detail for r in found)
    assert [r.completion for r in found] == [text] * len(INSTANCES)


def test_tokens_and_truncation_are_kept():
    stopped = evaluate(
        Solver(INSTANCES, PromptStyle.COMPACT), USUAL.load(), INSTANCES, PromptStyle.COMPACT, GREEDY
    )
    cut = evaluate(
        Solver(INSTANCES, PromptStyle.COMPACT, finish="length"),
        USUAL.load(),
        INSTANCES,
        PromptStyle.COMPACT,
        GREEDY,
    )
    assert {r.truncated for r in stopped} == {False}
    assert {r.truncated for r in cut} == {True}
    assert [r.completion_tokens for r in stopped] == [len(optimal(i)) for i in INSTANCES]


def test_all_is_asked_at_once_with_the_given_sampling_and_progress_is_told():
    model, told = Solver(INSTANCES, PromptStyle.COMPACT), []
    evaluate(model, USUAL.load(), INSTANCES, PromptStyle.COMPACT, GREEDY, told.append)
    assert model.samplings == [GREEDY]
    assert [(index, completion.text) for new in told for index, completion in new.items()] == [
        (n, optimal(i)) for n, i in enumerate(INSTANCES)
    ]


def test_no_instances_need_no_answers():
    assert rollouts(instances=[]) == []


def test_gains_are_paired_over_the_instances():
    order = {i.problem.id: index for index, i in enumerate(INSTANCES)}
    before = rollouts(lambda i: optimal(i) if order[i.problem.id] < 8 else "")
    after = rollouts(
        lambda i: "" if order[i.problem.id] < 2 else optimal(i) if order[i.problem.id] < 14 else detour(i)
    )
    valid, better = gains(before, after)
    assert valid.value == pytest.approx((18 - 8) / 20)
    assert better.value == pytest.approx((12 - 8) / 20)
    assert valid.low < valid.value < valid.high
    assert better.low <= better.value <= better.high
    flags = ([r.verdict.valid for r in before], [r.verdict.valid for r in after])
    assert valid == paired_difference(*map(np.array, flags))


def test_valid_gains_are_paired_within_each_map_size():
    before = rollouts(lambda i: optimal(i) if i.problem.size == 4 else "")
    found = valid_gains(before, rollouts(lambda i: "" if i.problem.size == 4 else optimal(i)))
    assert {size: (change.value, change.low, change.high) for size, change in found.items()} == {
        "3": (1, 1, 1),
        "4": (-1, -1, -1),
    }


def test_the_same_answers_gain_nothing():
    for change in gains(rollouts(), rollouts()):
        assert (change.value, change.low, change.high) == (0, 0, 0)


def test_evaluations_of_different_instances_cannot_be_paired():
    before = rollouts()
    for after in (before[:-1], before[::-1], [], rollouts(instances=draw_instances(20, seed=1))):
        with pytest.raises(DataError, match="not on the same instances in the same order"):
            gains(before, after)
        with pytest.raises(DataError, match="not on the same instances in the same order"):
            valid_gains(before, after)
