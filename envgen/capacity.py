"""How many distinct boards a class holds: map size, agents, number of holes, with or without a necessary wait.

Distinct means up to the 8 symmetries of the square and the agents' order. Small classes are enumerated; of the others
the number of all boards is known exactly, and how many of them are solvable and need a wait is for sampling to say.
"""

import logging
from functools import cache
from itertools import combinations, permutations
from math import comb, perm
from typing import NamedTuple

import numpy as np

from envgen.errors import SamplingError
from envgen.problem import MAX_SIZE, identities

ENUMERABLE = 150_000
"""Boards with unordered agents that are enumerated, about two seconds."""

_log = logging.getLogger("envwright.sampler")


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


def check_capacity(size: int, agents: int, holes: int, without_wait: int, with_wait: int) -> None:
    """Warn if more than half of a class is asked for; SamplingError if more than all, with what works nearby."""
    known = enumerated_capacity(size, agents, holes)
    for label, asked in ((False, without_wait), (True, with_wait)):
        held = known[label] if known else None
        if held is None or 2 * asked <= held:
            continue
        which = f"map size {size} with {agents} agents and {holes} holes holds {held:,} distinct boards that need {'a' if label else 'no'} wait"
        if asked <= held:
            _log.warning("%s; %s are asked for, more than half, so that the draws will repeat themselves", which, f"{asked:,}")
            continue
        raise SamplingError(f"{which}, {asked:,} are asked for; {_remedy(size, agents, holes, label, asked)}")


def _remedy(size: int, agents: int, holes: int, label: bool, asked: int) -> str:
    """The nearest number of holes, or else of cells, with which a class holds what is asked."""
    for other in sorted(range(size * size // 2 + 1), key=lambda number: abs(number - holes)):
        capacity = enumerated_capacity(size, agents, other)
        if other != holes and capacity and capacity[label] >= asked:
            return f"hole_ratio {other / size**2 + 0.004:.2f} holds {capacity[label]:,}"
    if size < MAX_SIZE:
        return f"ask for fewer, or use map size {size + 1}"
    return "ask for fewer, or use more agents"
