"""How many distinct boards a class holds: map size, agents, holes, with or without a necessary wait.

Distinct means up to the 8 symmetries of the square and the agents' order. Small classes have been enumerated,
their counts are in `capacities.json` (`make capacity` writes it); of the others the number of all boards is
known exactly, and how many of them are solvable and need a wait is for sampling to say.
"""

import json
from functools import cache
from itertools import combinations, permutations
from math import ceil, comb, perm
from pathlib import Path
from typing import NamedTuple

import numpy as np

from envgen.mapf.problem import identities, symmetries
from envgen.mapf.solver.columns import pack_cells
from envgen.mapf.solver.solve import solve_boards

ENUMERABLE = 1_000_000
"""Classes with no more boards than this, agents unordered, have been enumerated."""
TABLE = Path(__file__).parent / "capacities.json"


class Capacity(NamedTuple):
    """Distinct solvable boards of a class."""

    without_wait: int
    with_wait: int


def board_count(size: int, agents: int, holes: int) -> int:
    """Boards with unordered agents, none starting on its goal, solvable or not, by inclusion-exclusion."""
    free = size * size - holes
    goals = (
        sum(
            (-1) ** fixed * comb(agents, fixed) * perm(free - fixed, agents - fixed)
            for fixed in range(agents + 1)
        )
        if free >= agents
        else 0
    )
    return comb(size * size, holes) * comb(free, agents) * goals


def enumerated_capacity(size: int, agents: int, holes: int) -> Capacity | None:
    """The capacity of a class as enumerated once, or None if it has more than ENUMERABLE boards."""
    counts = _table().get(f"{size} {agents} {holes}")
    return Capacity(*counts) if counts else None


@cache
def _table() -> dict[str, list[int]]:
    return json.loads(TABLE.read_text(encoding="utf-8"))


def enumerate_capacity(size: int, agents: int, holes: int) -> Capacity:
    """The capacity of a class, counted over all its boards.

    Of each set of symmetric placements of the holes only one is gone through.
    """
    found: dict[bool, set[str]] = {False: set(), True: set()}
    cells = range(size * size)
    images = symmetries(size).tolist()
    for hole_cells in combinations(cells, holes):
        if any(tuple(sorted(image[cell] for cell in hole_cells)) < hole_cells for image in images):
            continue
        free = [cell for cell in cells if cell not in hole_cells]
        for starts in combinations(free, agents):
            goals = np.array(list(permutations(free, agents)), dtype=np.int64)
            goals = goals[(goals != np.array(starts)).all(axis=1)]
            if not len(goals):
                continue
            hole_rows = np.tile(np.array(hole_cells, dtype=np.int64), (len(goals), 1))
            start_rows = np.tile(np.array(starts, dtype=np.int64), (len(goals), 1))
            answers = solve_boards(pack_cells(size, hole_rows, start_rows, goals))
            for label in (False, True):
                chosen = (answers.status > 0) & ((answers.waits > 0) == label)
                found[label].update(identities(size, hole_rows[chosen], start_rows[chosen], goals[chosen]))
    return Capacity(len(found[False]), len(found[True]))


def hole_ratio_that_holds(size: int, agents: int, holes: int, label: bool, asked: int) -> float | None:
    """The nearest hole ratio at which an enumerable class holds `asked` boards with that label, if any."""
    for other in sorted(range(size * size // 2 + 1), key=lambda number: abs(number - holes)):
        capacity = enumerated_capacity(size, agents, other) if other != holes else None
        if capacity and capacity[label] >= asked:
            return ceil(100 * other / size**2) / 100
    return None
