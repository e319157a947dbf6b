"""Scorers of a data set: which answers are right, which are wrong, and that no text hangs or breaks one."""

import json
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from envgen.errors import UnreadableError
from envgen.registry import EnvironmentSpec
from envgen.table.environment import DatasetEnvironment
from envgen.table.scorers import READERS, MathScorer

LETTERS = ["B", "(B)", "B.", "The answer is **(B)**.", "A is wrong.\n\nAnswer: B", "\\boxed{B}"]
OBJECT, FENCED = '{"a": 1, "b": [true]}', '```json\n{"a": 1, "b": [true]}\n```'
OTHERS = ['{"a": 1, "b": [1]}', '{"a": 1}']
NO_JSON = ["a = 1", "[" * 9_000, '{"a": 1, "a": 1, "b": [true]}', "NaN"]
SEVENTY_TWO = ["72", "so 72.", "It is $72.00", "#### 72", "\\boxed{72} after 3 steps", "7.2e1"]
CASES: list[tuple[str, str, list[str], list[str], list[str]]] = [
    ("exact", "New York", ["New York", " New\n York "], ["new york", "York"], []),
    ("exact", "caf\u00e9", ["cafe\u0301"], ["cafe"], []),
    ("number", "72", SEVENTY_TWO, ["-72", "27"], ["?"]),
    ("number", "-1,234.5", ["-1234.50", "\u22121234.5", "is -1,234.5"], ["1234.5", "5-1234.5"], ["x2"]),
    ("number", "0.75", ["3/4", "75e-2"], ["3/5", "4/3"], ["1/0"]),
    ("number", "#### 5", ["5"], ["15"], ["9" * 5_000]),
    ("choice", "B", LETTERS, ["A", "C"], ["A or B"]),
    ("choice", "(3)", ["3", "option 3"], ["4"], ["Because", "b"]),
    ("json", OBJECT, ['{"b":[true],"a":1.0}', FENCED, 'It is {"a":1,"b":[true]}.'], OTHERS, NO_JSON),
]
"""Scorer, reference, and answers that are right, wrong and unreadable."""


@pytest.mark.parametrize(("name", "reference", "right", "wrong", "unreadable"), CASES)
def test_right_wrong_and_unreadable_answers(
    name: str, reference: str, right: list[str], wrong: list[str], unreadable: list[str]
) -> None:
    read = READERS[name]
    verdicts = {answer: read(answer) == read(reference) for answer in [*right, *wrong]}
    assert verdicts == {**dict.fromkeys(right, True), **dict.fromkeys(wrong, False)}
    for answer in unreadable:
        with pytest.raises(UnreadableError):
            read(answer)


HOSTILE = ["9", "1,", "1,111", "-", "1e", "1/", "{", "[", "```", "```json\n", "\\boxed{", "answer ", "A "]
HOSTILE += ["\n", " ", "\x00", "\u0663"]


@pytest.mark.parametrize("name", READERS)
def test_hostile_answers_are_read_in_bounded_time(name: str) -> None:
    for text in [part * (20_000 // len(part)) for part in HOSTILE]:
        begin = time.process_time()
        with suppress(UnreadableError):
            READERS[name](text)
        assert time.process_time() - begin < 1, text[:20]


def opened(folder: Path) -> DatasetEnvironment:
    rows = [{"prompt": "a", "answer": "\\frac{3}{4}"}, {"prompt": "b", "answer": "east"}]
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    options = {"source": "./rows.jsonl", "scorer": "math", "strata": {"column": "prompt"}}
    environment = EnvironmentSpec(name="dataset", options=options).resolved(folder).load()
    assert isinstance(environment, DatasetEnvironment)
    return environment


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("math_verify"), reason="math-verify is not installed")
def test_math_is_compared_by_the_library(tmp_path: Path) -> None:
    environment = opened(tmp_path)
    [three_quarters] = environment.rows["a"]
    right = ["0.75", "It is $\\frac{6}{8}$.", "\\boxed{3/4}", "<answer>75/100</answer>"]
    wrong = ["4/3", "$x$", "$9^{9^{9^{9}}}$"]
    verdicts = environment.judge([three_quarters] * 8, [*right, *wrong, "no idea, sorry about that"])
    assert [verdict.valid for verdict in verdicts] == [True] * 4 + [False] * 4
    assert {verdict.category for verdict in verdicts[4:7]} == {"wrong"}
    assert verdicts[7].category == "no_answer"
    environment.worker.close()


def test_without_the_library_math_is_refused_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("envgen.table.scorers.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs the package math-verify; pip install -e '.\[math\]'"):
        MathScorer()
