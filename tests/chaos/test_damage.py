"""The tool that damages files: it counts what a reader does wrong, and the readers do nothing wrong."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from damage import OUTCOMES, damaged

TOOL = Path(__file__).parent / "damage.py"
BAD_READERS = """
import os, time
from envgen.errors import DataError
from pathlib import Path
from typing import NamedTuple

class Kind(NamedTuple):
    make: object
    read: object
    known: bool = False

def make(folder):
    (folder / "file").write_bytes(bytes(range(256)))
    return folder / "file"

def reads(do):
    return lambda path: path.read_bytes() if path.read_bytes() == bytes(range(256)) else do(path)

def refuse(path):
    raise DataError("no")

KINDS = {
    "refuses": Kind(make, reads(refuse)),
    "does not look": Kind(make, lambda path: 1),
    "believes": Kind(make, lambda path: path.read_bytes()),
    "believes though it could know": Kind(make, lambda path: path.read_bytes(), True),
    "raises": Kind(make, reads(lambda path: 1 / 0)),
    "aborts": Kind(make, reads(lambda path: os.abort())),
    "hangs": Kind(make, reads(lambda path: time.sleep(60))),
}
"""


def counted(table: str) -> dict[str, dict[str, int]]:
    lines = [line.rsplit(maxsplit=7) for line in table.splitlines()[1:]]
    return {kind.strip(): dict(zip(OUTCOMES, map(int, found[1:]), strict=True)) for kind, *found in lines}


def run(tool: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, tool, *arguments], capture_output=True, text=True)


@pytest.mark.slow
def test_whatever_a_reader_does_wrong_is_counted_and_fails(tmp_path: Path):
    tool = tmp_path / "damage.py"
    tool.write_text(TOOL.read_text().replace("PATIENCE = 120", "PATIENCE = 1"))
    (tmp_path / "damage_kinds.py").write_text(BAD_READERS)
    done = run(tool, "--files", "3")
    found = {
        kind: next(outcome for outcome, number in outcomes.items() if number == 3)
        for kind, outcomes in counted(done.stdout).items()
        if kind != "all"
    }
    assert found == {
        "refuses": "message",
        "does not look": "unchanged",
        "believes": "other",
        "believes though it could know": "silently other",
        "raises": "traceback",
        "aborts": "abort",
        "hangs": "abort",
    }
    assert done.returncode == 1
    assert "raises, file 0: traceback ZeroDivisionError" in done.stderr
    assert run(tool, "--files", "3", "--only", "refuses", "look").returncode == 0


def test_a_damaged_file_is_another_one_and_always_the_same():
    data = bytes(range(256)) * 20
    found = [damaged(data, random.Random(seed)) for seed in range(300)]
    assert data not in found
    assert found == [damaged(data, random.Random(seed)) for seed in range(300)]
    assert len({len(one) for one in found}) > 50


@pytest.mark.slow
def test_the_readers_refuse_what_is_damaged_with_one_message():
    done = run(TOOL, "--files", "25", "--seed", "7", "--only", "data set", "of a stage", "problems", "preset")
    assert done.returncode == 0, done.stderr + done.stdout
    found = counted(done.stdout)
    assert found["all"]["message"] > 0.7 * sum(found["all"].values())
