"""What the loop is written in: only files about boards know the words of boards."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORDS = re.compile(
    r"map_?sizes?|map sizes?|hole_?ratios?"
    r"|wait_?ratios?|\bholes?\b|\bboards?\b|num_agents|\bagents\b|\d+x\d+",
    re.IGNORECASE,
)
ABOUT_BOARDS = (
    "envgen/mapf/",
    "infra/analysis/benchmark/",
    "flows/benchmark_parameters.py",
    "flows/commands/benchmark_cli.py",
    "flows/commands/benchmark_tables.py",
)
"""Besides the family itself: the paper's benchmark and study, and the commands that speak of boards."""
FILES = sorted(
    path
    for room in ("envgen", "policy", "engineer", "infra", "tasks", "flows")
    for kind in ("*.py", "*.j2")
    for path in (ROOT / room).rglob(kind)
    if not str(path.relative_to(ROOT)).startswith(ABOUT_BOARDS)
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_loop_knows_no_word_of_boards(path: Path):
    found = [
        f"{number}: {line.strip()}"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if WORDS.search(line)
    ]
    assert not found


def test_every_file_that_may_speak_of_boards_is_there():
    assert [name for name in ABOUT_BOARDS if not (ROOT / name).exists()] == []
