"""All boards of a small class, counted one by one, for `envgen/mapf/capacities.json`."""

from itertools import combinations, permutations
from math import comb, perm

import numpy as np

from envgen.mapf.capacity import Capacity
from envgen.mapf.problem import identities, symmetries
from envgen.mapf.solver.columns import pack_cells
from envgen.mapf.solver.solve import solve_boards


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
