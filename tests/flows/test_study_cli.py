"""`envwright study` as a person calls it, with nothing left to run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def envwright(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "flows.cli", "study", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "COLUMNS": "200"}, capture_output=True, text=True, timeout=240)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["large"], "large: no such study; the shipped ones are small"),
        (["small", "--data", "nowhere"], "nowhere: holds no round of study small"),
        (["small", "--data", "docs/study", "--round", "1"], "--data runs nothing"),
        (["small", "--round", "9"], "round 9: study small has the rounds 1"),
        (["small"], "round 1: cannot be run: tiny-wide: the weights of this policy are not shipped any more; docs/study/registration.md"),
        (["small", "--round", "2"], "round 2: cannot be run: tiny-waits: the weights"),
        (["strong", "--data", "docs/study"], "docs/study: holds no round of study strong"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(arguments: list[str], complaint: str):
    done = envwright(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr.replace("\n", " ")
    assert "orchestrator" not in done.stdout


@pytest.mark.slow
def test_the_study_in_the_docs_is_what_its_answers_say(tmp_path: Path):
    done = envwright("small", "--data", "docs/study", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "study.md").read_text() == (ROOT / "docs" / "study.md").read_text()
    assert {path.name for path in (tmp_path / "study").glob("*.png")} == {path.name for path in (ROOT / "docs" / "study").glob("*.png")}
