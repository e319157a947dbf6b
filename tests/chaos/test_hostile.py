"""The tool that gives hostile answers: it counts what a reader does wrong, and the readers do nothing
wrong."""

import random
import re
import subprocess
import sys
import time
from pathlib import Path

import answers
import pytest
from hostile_texts import hostile

from engineer.answer import parse_answer

TOOL = Path(answers.__file__)


def test_what_a_reader_raises_is_counted_and_fails(monkeypatch, capsys):
    def bad(text: str, _: object) -> None:
        raise KeyError(text[:3])

    monkeypatch.setattr(answers, "parse_answer", bad)
    assert answers.main(["--answers", "40"]) == 1
    said = capsys.readouterr()
    assert "| micro: designs | raised | 10 |" in said.out
    assert "KeyError" in said.err


@pytest.mark.slow
def test_a_reader_that_takes_too_long_is_counted_and_fails(monkeypatch, capsys):
    def slow(text: str, space: object) -> object:
        while time.process_time() < until:
            pass
        return parse_answer(text, space)  # type: ignore[arg-type]

    monkeypatch.setattr(answers, "LIMIT", 0.2)
    monkeypatch.setattr(answers, "parse_answer", slow)
    until = time.process_time() + 2
    assert answers.main(["--answers", "40"]) == 1
    assert "too slow" in capsys.readouterr().out


def test_a_reader_that_executes_an_answer_is_noticed(monkeypatch, capsys):
    def obeys(text: str, space: object) -> object:
        for file in re.findall(r"touch (\S+canary)", text):
            Path(file).touch()
        return parse_answer(text, space)  # type: ignore[arg-type]

    monkeypatch.setattr(answers, "parse_answer", obeys)
    assert answers.main(["--answers", "400"]) == 1
    assert "code was executed: yes" in capsys.readouterr().out


def test_answers_are_always_the_same_and_can_be_stored():
    def drawn() -> list[str]:
        seeds = map(random.Random, range(3_000))
        return [hostile("R0C0 -> R0C1", "R1C1", Path("canary"), seed) for seed in seeds]

    found = drawn()
    assert found == drawn()
    assert all(text.encode() is not None for text in found)
    assert len(set(found)) > 2_000
    assert any(len(text) > 9 * 2**20 for text in found)


@pytest.mark.slow
def test_two_thousand_hostile_answers_get_a_verdict_or_a_reason():
    done = subprocess.run(
        [sys.executable, TOOL, "--answers", "2000", "--seed", "7"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = [int(row.split("|")[3].replace(",", "")) for row in done.stdout.splitlines() if "| micro" in row]
    assert sum(counts) == 2_000
    assert "| micro: designs | legal after changes |" in done.stdout
    assert "| micro: answers | valid |" in done.stdout
