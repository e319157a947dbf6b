"""Answers that survive a killed evaluation."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from boards import Solver, detour, draw_instances, optimal

from envgen.dataset import USUAL
from envgen.errors import ModelError
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle, prompt
from policy.chat.answers import KeptAnswers
from policy.chat.contract import Completion, Conversation, Sampling, ask
from policy.evaluation import evaluate
from policy.rollouts import Rollout, read_rollouts, write_rollouts

INSTANCES = draw_instances(20)
STYLE = PromptStyle.COMPACT
GREEDY = Sampling(max_tokens=40)
ASKED = [ask(prompt(instance.problem, STYLE)) for instance in INSTANCES]


class Counts(Solver):
    """Remembers how many conversations each call was about, and fails after so many answers."""

    number = None

    def complete(self, conversations, sampling, progress=None) -> list[Completion]:
        self.asked = len(conversations)
        found = super().complete(conversations[: self.number], sampling, progress)
        if self.number is not None:
            raise ModelError("out of memory, or so")
        return found


def cut_off(path: Path, number: int, asked: Sequence[Conversation] = ASKED, **decides: str) -> None:
    solver = Counts(INSTANCES, STYLE)
    solver.number = number
    with pytest.raises(ModelError):
        KeptAnswers(solver, path, decides).complete(asked, GREEDY)


def test_a_repeated_call_asks_only_for_what_is_owed_and_tells_all(tmp_path):
    path, solver, told = tmp_path / "deep" / "partial.jsonl", Counts(INSTANCES, STYLE, detour), []
    cut_off(path, 7, model="a")
    kept = KeptAnswers(solver, path, {"model": "a"})
    found = kept.complete(ASKED, GREEDY, told.append)
    assert solver.asked == 13
    whole = Solver(INSTANCES, STYLE).complete(ASKED, GREEDY)
    assert found[:7] == whole[:7], "the answers that were there, though this model would give others"
    assert sorted(index for new in told for index in new) == list(range(20))
    solver.asked = 0
    assert kept.complete(ASKED, GREEDY) == found
    assert solver.asked == 0


@pytest.mark.parametrize(
    ("model", "sampling", "asked"),
    [("b", GREEDY, ASKED), ("a", Sampling(max_tokens=41), ASKED), ("a", GREEDY, ASKED[::-1])],
)
def test_answers_of_another_model_sampling_or_questions_are_not_taken(
    tmp_path: Path, model: str, sampling: Sampling, asked: list[Conversation]
):
    cut_off(tmp_path / "partial.jsonl", 7, model="a")
    solver = Counts(INSTANCES, STYLE)
    KeptAnswers(solver, tmp_path / "partial.jsonl", {"model": model}).complete(asked, sampling)
    assert solver.asked == 20


@pytest.mark.parametrize("torn", [10, 1])
def test_a_torn_last_line_costs_one_answer(tmp_path, torn: int):
    path, solver = tmp_path / "partial.jsonl", Counts(INSTANCES, STYLE)
    cut_off(path, 7)
    path.write_bytes(path.read_bytes()[:-torn])
    for owed in (13 if torn == 1 else 14, 0):
        solver.asked = 0
        found = KeptAnswers(solver, path, {}).complete(ASKED, GREEDY)
        assert found == Solver(INSTANCES, STYLE).complete(ASKED, GREEDY)
        assert solver.asked == owed


def test_equal_questions_are_asked_again_together(tmp_path):
    """Which answer is drawn depends on the rank among equal questions: the rest of a group alone would draw
    the first answers again."""
    asked = [ASKED[0]] * 4 + ASKED[1:3]
    cut_off(tmp_path / "partial.jsonl", 2, asked)
    solver = Counts(INSTANCES, STYLE)
    kept = KeptAnswers(solver, tmp_path / "partial.jsonl", {})
    kept.complete(asked, GREEDY)
    assert solver.asked == 6
    solver.asked = 0
    kept.complete(asked, GREEDY)
    assert solver.asked == 0


EVALUATE = """
import sys
from pathlib import Path
from boards import Solver
from test_answers import INSTANCES, STYLE, evaluated, slowly
evaluated(Solver(INSTANCES, STYLE, slowly), Path(sys.argv[1]))
"""


def slowly(instance: Instance) -> str:
    time.sleep(0.05)
    return optimal(instance)


def evaluated(model: Solver, folder: Path) -> list[Rollout]:
    kept = KeptAnswers(model, folder / "partial.jsonl", {})
    return evaluate(kept, USUAL.load(), INSTANCES, STYLE, GREEDY)


@pytest.mark.timeout(120)
def test_a_killed_evaluation_is_continued_and_ends_as_one_that_nobody_killed(tmp_path):
    path = os.pathsep.join(str(Path(__file__).parents[level]) for level in range(3))
    command = [sys.executable, "-c", EVALUATE, str(tmp_path)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
    partial = tmp_path / "partial.jsonl"
    while not partial.exists() or partial.read_bytes().count(b"\n") < 6:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    there = partial.read_bytes().count(b"\n") - 1  # the first line is the key
    assert there < len(INSTANCES), "the process was killed too late"
    solver = Counts(INSTANCES, STYLE)
    continued = evaluated(solver, tmp_path)
    assert solver.asked == len(INSTANCES) - there
    whole = evaluate(Solver(INSTANCES, STYLE), USUAL.load(), INSTANCES, STYLE, GREEDY)
    for name, rollouts in (("continued", continued), ("whole", whole)):
        write_rollouts(tmp_path / name, rollouts, STYLE)
    assert (tmp_path / "continued").read_bytes() == (tmp_path / "whole").read_bytes()
    assert read_rollouts(tmp_path / "continued") == whole
