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
FAMILY = "envgen/mapf/"
FILES = sorted(
    path
    for room in ("envgen", "policy", "engineer", "infra", "tasks", "flows")
    for kind in ("*.py", "*.j2")
    for path in (ROOT / room).rglob(kind)
    if not str(path.relative_to(ROOT)).startswith(FAMILY)
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_loop_knows_no_word_of_boards(path: Path):
    found = [
        f"{number}: {line.strip()}"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if WORDS.search(line)
    ]
    assert not found
