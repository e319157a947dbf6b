"""Answers that survive a killed evaluation."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from boards import Solver, detour, draw_instances

from envgen.errors import ModelError
from envgen.mapf.prompts import PromptStyle, prompt
from policy.chat.answers import KeptAnswers
from policy.chat.contract import Completion, Conversation, Sampling, ask

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
    """Fail after these answers, each of which is on the disk before the next one is asked."""

    def progress(new: Mapping[int, Completion]) -> None:
        filed.append(len(path.read_bytes().splitlines()))

    solver, filed = Counts(INSTANCES, STYLE), list[int]()
    solver.number = number
    with pytest.raises(ModelError):
        KeptAnswers(solver, path, decides).complete(asked, GREEDY, progress)
    assert filed == list(range(2, number + 2)), "the first line is the key of the call"


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
def test_answers_of_another_model_sampling_or_questions_are_not_taken(tmp_path, model, sampling, asked):
    cut_off(tmp_path / "partial.jsonl", 7, model="a")
    solver = Counts(INSTANCES, STYLE)
    KeptAnswers(solver, tmp_path / "partial.jsonl", {"model": model}).complete(asked, sampling)
    assert solver.asked == 20


@pytest.mark.parametrize("left", [1, 10, -1])
def test_a_torn_last_line_costs_one_answer(tmp_path, left: int):
    path, solver = tmp_path / "partial.jsonl", Counts(INSTANCES, STYLE)
    cut_off(path, 7)
    whole, _, last = path.read_bytes().rpartition(b"\n")
    path.write_bytes(whole + b"\n" + last[:left])
    for owed in (14, 0):
        solver.asked = 0
        found = KeptAnswers(solver, path, {}).complete(ASKED, GREEDY)
        assert found == Solver(INSTANCES, STYLE).complete(ASKED, GREEDY)
        assert solver.asked == owed
