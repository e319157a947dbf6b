import numpy as np
import pytest
from boards import Solver, detour, draw_instances, optimal, rollout

from envgen.dataset import USUAL
from envgen.errors import DataError
from envgen.estimates import difference
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle
from policy.chat.contract import Sampling
from policy.evaluation import evaluate, gains, valid_gains
from policy.rollouts import Rollout

INSTANCES = draw_instances(20)
GREEDY = Sampling(max_tokens=40)


def rollouts(respond=optimal, instances: list[Instance] = INSTANCES, finish: str = "stop") -> list[Rollout]:
    model = Solver(instances, PromptStyle.COMPACT, respond, finish)
    return evaluate(model, USUAL.load(), instances, PromptStyle.COMPACT, GREEDY)


@pytest.mark.parametrize("style", PromptStyle)
def test_all_is_asked_at_once_in_order_and_tokens_truncation_and_progress_are_kept(style: PromptStyle):
    model, reported = Solver(INSTANCES, style), []
    judged = evaluate(model, USUAL.load(), INSTANCES, style, GREEDY, reported.append)
    assert model.samplings == [GREEDY]
    assert [r.instance for r in judged] == INSTANCES
    assert all(r.verdict.valid and r.verdict.optimal and not r.truncated for r in judged)
    plans = [optimal(i) for i in INSTANCES]
    assert [r.completion for r in judged] == plans
    assert [r.completion_tokens for r in judged] == [len(plan) for plan in plans]
    assert {i: c.text for new in reported for i, c in new.items()} == dict(enumerate(plans))
    assert {r.truncated for r in rollouts(finish="length")} == {True}


def test_gains_are_paired_over_the_instances():
    number = INSTANCES.index
    before = rollouts(lambda i: optimal(i) if number(i) < 8 else "")
    after = rollouts(lambda i: "" if number(i) < 2 else optimal(i) if number(i) < 14 else detour(i))
    valid, better = gains(before, after, 1)
    assert valid.value == pytest.approx((18 - 8) / 20)
    assert better.value == pytest.approx((12 - 8) / 20)
    assert valid.low < valid.value < valid.high
    assert better.low <= better.value <= better.high
    change = [int(b.verdict.valid) - int(a.verdict.valid) for a, b in zip(before, after, strict=True)]
    assert valid == difference(change, [i.stratum for i in INSTANCES])


def test_several_answers_to_an_instance_are_paired_as_their_mean():
    instances = [instance for instance in INSTANCES for _ in range(3)]
    flags = np.random.default_rng(1).integers(0, 2, (2, len(instances)))
    before, after = (
        [rollout(i, optimal(i) if flag else "") for i, flag in zip(instances, part, strict=True)]
        for part in flags
    )
    change, strata = np.diff(flags.reshape(2, -1, 3).mean(axis=2), axis=0)[0], [i.stratum for i in INSTANCES]
    assert gains(before, after, 3) == (difference(change, strata),) * 2
    mean = {name: change[np.array(strata) == name].mean() for name in ("3", "4")}
    changes = {name: part.value for name, part in valid_gains(before, after, 3).items()}
    assert changes == pytest.approx(mean)


def test_evaluations_of_different_instances_cannot_be_paired():
    before = rollouts()
    for after in (before[:-1], before[::-1], [], rollouts(instances=draw_instances(20, seed=1))):
        for compare in (gains, valid_gains):
            with pytest.raises(DataError, match="not on the same instances in the same order"):
                compare(before, after, 1)
