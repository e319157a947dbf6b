"""Optimal plans, the least number of waits and the exact wait label, for any board: every board is decided.

The searches are compiled and loaded at the first board.
"""

import logging
from collections.abc import Sequence
from functools import cache

import numpy as np

from envgen.errors import DataError
from envgen.mapf.problem import MAX_AGENTS, Problem, Solution, to_text
from envgen.mapf.solver.columns import LONGEST_PLAN, Answers, Boards, pack, solution_of

BATCH = 1024
"""Problems that are solved together."""
LARGEST_TABLE = 1 << 24
"""Joint positions that the search over them may remember (600 MB), a power of two."""
BY_SIZE, TREE_ONLY, JOINT_ONLY = -1, 100_000_000, 0
"""Joint moves of the cost tree on a board, before the search over joint positions decides it."""

_log = logging.getLogger("envwright.solver")


def solve_many(problems: Sequence[Problem], tree_nodes: int = BY_SIZE) -> list[Solution | None]:
    """The plan with the least sum of costs and, among those, the fewest waits; None if there is no plan.

    Plans are the same on every machine; other `tree_nodes` may give other plans of equal costs and waits.
    DataError if a proof would take more than a gigabyte.
    """
    solutions: list[Solution | None] = []
    for first in range(0, len(problems), BATCH):
        batch = problems[first : first + BATCH]
        boards = pack(batch)
        answers = solve_boards(boards, tree_nodes)
        for index in np.flatnonzero(answers.status < 0).tolist():
            raise DataError(
                f"the following board takes more memory than {LARGEST_TABLE:,} joint positions to decide; "
                f"use fewer agents or another board:\n{to_text(batch[index])}"
            )
        solved = answers.status > 0
        solutions += [solution_of(boards, answers, i) if solved[i] else None for i in range(len(batch))]
    return solutions


def solve_boards(boards: Boards, tree_nodes: int = BY_SIZE) -> Answers:
    """Solve boards; the status of one that stays undecided is negative."""
    from envgen.mapf.solver.kernel import solve_batch

    count = len(boards.agents)
    answers = Answers(
        status=np.zeros(count, dtype=np.int64),
        waits=np.zeros(count, dtype=np.int64),
        steps=np.zeros((count, MAX_AGENTS), dtype=np.int64),
        cells=np.empty((count, LONGEST_PLAN, MAX_AGENTS), dtype=np.uint8),
    )
    solve_batch(_memory(), boards, answers, tree_nodes, LARGEST_TABLE)
    return answers


@cache
def _memory() -> np.void:
    """The working memory of this process; says so if the searches must be compiled first."""
    from envgen.mapf.compiled import cache_directory
    from envgen.mapf.solver.memory import new_memory

    if not any(cache_directory().rglob("kernel.solve_batch*.nbi")):
        _log.warning("compiling the solver for this machine, once; this takes about a minute")
    return new_memory()
