from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards import detour, draw_instances, off_the_grid, optimal, train_spec, unfinished
from pydantic import ValidationError

from envgen.dataset import USUAL
from envgen.environment import FaultCount
from envgen.mapf.environment import MapfFrozenLake
from envgen.mapf.prompts import answer
from envgen.mapf.space import Options
from envgen.mapf.verifier import Verdict, verify
from envgen.registry import EnvironmentSpec
from policy.grpo.rewards import RewardWeights, reward_functions, terms
from policy.grpo.train_log import some_failed

INSTANCES = draw_instances()
ENVIRONMENT = USUAL.load()
ROWS = list(range(len(INSTANCES)))
NAMES = ["format", "valid", "optimal", "arrived", "legal_share"]


def functions(weights: RewardWeights, *more: Any) -> list[Callable[..., list[float | None]]]:
    return reward_functions(ENVIRONMENT, weights, FaultCount(ENVIRONMENT.space), INSTANCES, *more)


ANSWERS = {
    "optimal": (optimal, (1.0, 1.0, 1.0)),
    "valid": (detour, (1.0, 1.0, 0.0)),
    "wrong": (off_the_grid, (1.0, 0.0, 0.0)),
    "unfinished": (unfinished, (1.0, 0.0, 0.0)),
    "unreadable": (lambda instance: "Agent 0: left, then right", (0.0, 0.0, 0.0)),
    "nothing": (lambda instance: "", (0.0, 0.0, 0.0)),
}


def test_each_answer_to_each_board_earns_its_terms_as_a_conversation_and_as_a_text():
    """Several answers to a board are judged each."""
    rows = [row for row in ROWS for _ in ANSWERS]
    texts = [respond(instance) for instance in INSTANCES for respond, _ in ANSWERS.values()]
    question = {"role": "user", "content": "?"}
    conversations = [[question, {"role": "assistant", "content": text}] for text in texts]
    more = {"prompts": [[question]] * len(rows), "trainer_state": None}
    alone = [terms(ENVIRONMENT, verify(INSTANCES[n], text)) for n, text in zip(rows, texts, strict=True)]
    assert {tuple(values) for values in alone} == {tuple(NAMES)}
    for place, function in enumerate(functions(RewardWeights())):
        expected = [earned[place] for _ in INSTANCES for _, earned in ANSWERS.values()]
        assert [values[function.__name__] for values in alone] == expected
        assert function(completions=texts, index=rows) == expected
        assert function(completions=conversations, index=rows, **more) == expected


def test_the_reward_functions_come_in_the_order_of_the_weights_and_those_without_a_weight_not_at_all():
    """But for the terms that are logged, whatever their weight."""
    every = RewardWeights(format=0.1, valid=0.2, optimal=0.3, arrived=0.4, legal_share=0.5)
    assert [f.__name__ for f in functions(every)] == list(every.weights) == NAMES
    assert list(every.weights.values()) == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert RewardWeights(format=0, valid=0, optimal=0).weights == dict.fromkeys(NAMES[:3], 0.0)
    usual = {"format": 0.0, "valid": 1.0, "optimal": 0.5}
    assert RewardWeights(legal_share=0.25, arrived=0).weights == usual | {"legal_share": 0.25}


def test_partial_progress_pays_for_agents_at_their_goals_and_for_the_steps_before_the_first_violation():
    *_, arrived, legal_share = functions(RewardWeights(arrived=1, legal_share=1))
    for function in (arrived, legal_share):
        assert function(completions=[optimal(i) for i in INSTANCES], index=ROWS) == [1.0] * len(ROWS)
        assert function(completions=["no plan"] * len(ROWS), index=ROWS) == [0.0] * len(ROWS)
    row = next(row for row in ROWS if all(len(path) > 1 for path in INSTANCES[row].solution.plan))
    first, second = INSTANCES[row].solution.plan
    half = answer((first, second[:-1]))
    assert arrived(completions=[half], index=[row]) == [0.5]
    waits = answer(((first[0],) * 4 + ((9, 9),), second[:1]))
    assert legal_share(completions=[waits], index=[row]) == [3 / 4]


def test_a_batch_is_judged_anew_when_its_answers_or_boards_change():
    format_term, valid_term, _ = functions(RewardWeights())
    texts = [optimal(i) for i in INSTANCES]
    for term in (format_term, valid_term):
        assert term(completions=texts, index=ROWS) == [1.0] * len(ROWS)
    texts[0] = ""
    assert valid_term(completions=texts, index=ROWS) == [0.0] + [1.0] * (len(ROWS) - 1)
    rows = [ROWS[1], *ROWS[1:]]
    texts[0] = optimal(INSTANCES[1])
    assert valid_term(completions=texts, index=rows) == [1.0] * len(ROWS)
    rows[0] = ROWS[0]
    assert valid_term(completions=texts, index=rows)[0] == float(verify(INSTANCES[0], texts[0]).valid)
    conversation = [[{"role": "assistant", "content": texts[1]}]]
    assert valid_term(completions=conversation, index=ROWS[1:2]) == [1.0]
    conversation[0][0]["content"] = "nothing"
    assert valid_term(completions=conversation, index=ROWS[1:2]) == [0.0]


def test_what_is_judged_invalid_is_kept_once_with_the_ends_of_question_and_answer():
    failed = list[dict[str, str]]()
    prompts = [[{"role": "user", "content": f"{'x' * 999} board {row}"}] for row in ROWS]
    texts = ["long " * 999 + "end", *(optimal(i) for i in INSTANCES[1:])]
    for function in functions(RewardWeights(), failed):
        function(completions=texts, index=ROWS, prompts=prompts)
    [entry] = failed
    assert entry["stratum"] == INSTANCES[0].stratum
    assert entry["question"].endswith("x board 0")
    assert entry["answer"].endswith("long end")
    assert max(map(len, entry.values())) <= 300
    assert entry["verdict"] == verify(INSTANCES[0], texts[0]).detail


def test_the_last_two_failed_answers_of_each_stratum_are_kept():
    rows = [{"stratum": name, "answer": str(place)} for place, name in enumerate("aabbaab")]
    assert [row["answer"] for row in some_failed(rows)] == ["3", "4", "5", "6"]


def test_weights_are_never_negative_and_their_names_are_fixed():
    for name, weight in (("valid", -0.1), *(("arrived", one) for one in (-1, "much", float("nan")))):
        with pytest.raises(ValidationError, match=name):
            RewardWeights.model_validate({name: weight})
    known = "format, valid, optimal, arrived, legal_share"
    with pytest.raises(ValueError, match=rf"rewards\.speed: .* has no such term; known are {known}"):
        RewardWeights.model_validate({"speed": 1}).check(ENVIRONMENT)


def test_an_answer_that_could_not_be_scored_is_outside_of_the_mean_of_its_group(monkeypatch, tmp_path: Path):
    """Every function says None, whatever the environment, and training takes its advantage for 0."""
    from policy.grpo.trainer import Trainer
    from policy.grpo.training import train

    class Faulty(MapfFrozenLake):
        """Every other answer breaks the scorer."""

        def judge_answers(self, instances, answers):
            verdicts = super().judge_answers(instances, answers)
            fault = Verdict.model_construct(valid=False, category="broken", detail="it broke")
            return [fault if place % 2 else verdict for place, verdict in enumerate(verdicts)]

    environment = Faulty(Options())
    environment.space = environment.space.model_copy(update={"fault": "broken"})
    every = RewardWeights(format=0.1, arrived=0.4, legal_share=0.5)
    faults, texts = FaultCount(environment.space), [optimal(i) for i in INSTANCES]
    for function in reward_functions(environment, every, faults, INSTANCES):
        assert function(completions=texts, index=ROWS) == [1.0, None] * (len(ROWS) // 2)

    monkeypatch.setattr(EnvironmentSpec, "load", lambda self: environment)
    monkeypatch.setattr("envgen.environment.FAULT_SHARE", 1)
    advantages, original = list[float](), Trainer._generate_and_score_completions

    def watched(self: Trainer, inputs: list) -> dict:
        scored = original(self, inputs)
        advantages.extend(scored["advantages"].tolist())
        return scored

    monkeypatch.setattr(Trainer, "_generate_and_score_completions", watched)
    train(train_spec(tmp_path, draw_instances(8), per_device_train_batch_size=32, beta=0.0))
    groups = np.reshape(advantages, (8, 2, 2))
    assert not groups[..., 1].any()
    assert groups[..., 0].any()
    assert np.abs(groups[..., 0].mean(axis=1)).max() < 1e-6
