"""How many distinct boards a class holds: map size, agents, number of holes, with or without a necessary wait.

Distinct means up to the 8 symmetries of the square and the agents' order. Small classes are enumerated; of the others
the number of all boards is known exactly, and how many of them are solvable and need a wait is for sampling to say.
"""

from functools import cache
from itertools import combinations, permutations
from math import ceil, comb, perm
from typing import NamedTuple

import numpy as np

from envgen.problem import identities

ENUMERABLE = 150_000
"""Boards with unordered agents that are enumerated, about two seconds."""


class Capacity(NamedTuple):
    """Distinct solvable boards of a class."""

    without_wait: int
    with_wait: int


def board_count(size: int, agents: int, holes: int) -> int:
    """Boards with unordered agents, none of which starts on its goal, solvable or not; by inclusion and exclusion."""
    free = size * size - holes
    goals = sum((-1) ** fixed * comb(agents, fixed) * perm(free - fixed, agents - fixed) for fixed in range(agents + 1)) if free >= agents else 0
    return comb(size * size, holes) * comb(free, agents) * goals


@cache
def enumerated_capacity(size: int, agents: int, holes: int) -> Capacity | None:
    """The capacity of a class by enumeration, or None if it has more than ENUMERABLE boards."""
    if board_count(size, agents, holes) > ENUMERABLE:
        return None
    from envgen.sampler import pack_cells
    from envgen.solver import solve_boards

    found: dict[bool, set[str]] = {False: set(), True: set()}
    cells = range(size * size)
    for hole_cells in combinations(cells, holes):
        free = [cell for cell in cells if cell not in hole_cells]
        ends = [
            (starts, goals)
            for starts in combinations(free, agents)
            for goals in permutations(free, agents)
            if all(start != goal for start, goal in zip(starts, goals, strict=True))
        ]
        if not ends:
            continue
        starts, goals = (np.array(column, dtype=np.int64) for column in zip(*ends, strict=True))
        hole_rows = np.tile(np.array(hole_cells, dtype=np.int64), (len(ends), 1))
        answers = solve_boards(pack_cells(size, hole_rows, starts, goals))
        for label in (False, True):
            chosen = (answers.status > 0) & ((answers.waits > 0) == label)
            found[label].update(identities(size, hole_rows[chosen], starts[chosen], goals[chosen]))
    return Capacity(len(found[False]), len(found[True]))


def hole_ratio_that_holds(size: int, agents: int, holes: int, label: bool, asked: int) -> float | None:
    """The nearest hole ratio at which an enumerable class holds `asked` boards with that wait label, if there is one."""
    for other in sorted(range(size * size // 2 + 1), key=lambda number: abs(number - holes)):
        capacity = enumerated_capacity(size, agents, other) if other != holes else None
        if capacity and capacity[label] >= asked:
            return ceil(100 * other / size**2) / 100
    return None
