"""How many distinct boards a class holds: map size, agents, holes, with or without a necessary wait.

Distinct means up to the 8 symmetries of the square and the agents' order. Small classes have been enumerated,
their counts are in `capacities.json`; of the others the number of all boards is
known exactly, and how many of them are solvable and need a wait is for sampling to say.
"""

import json
from functools import cache
from math import ceil
from pathlib import Path
from typing import NamedTuple

ENUMERABLE = 1_000_000
"""Classes with no more boards than this, agents unordered, have been enumerated."""
TABLE = Path(__file__).parent / "capacities.json"


class Capacity(NamedTuple):
    """Distinct solvable boards of a class."""

    without_wait: int
    with_wait: int


def enumerated_capacity(size: int, agents: int, holes: int) -> Capacity | None:
    """The capacity of a class as enumerated once, or None if it has more than ENUMERABLE boards."""
    counts = _table().get(f"{size} {agents} {holes}")
    return Capacity(*counts) if counts else None


@cache
def _table() -> dict[str, list[int]]:
    return json.loads(TABLE.read_text(encoding="utf-8"))


def hole_ratio_that_holds(size: int, agents: int, holes: int, label: bool, asked: int) -> float | None:
    """The nearest hole ratio at which an enumerable class holds `asked` boards with that label, if any."""
    for other in sorted(range(size * size // 2 + 1), key=lambda number: abs(number - holes)):
        capacity = enumerated_capacity(size, agents, other) if other != holes else None
        if capacity and capacity[label] >= asked:
            return ceil(100 * other / size**2) / 100
    return None
