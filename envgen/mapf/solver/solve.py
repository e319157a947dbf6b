"""Optimal plans, the least number of waits and the exact wait label of boards.

The searches are compiled at the first board, once for a version of the sources.
"""

import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from envgen.errors import SolverError
from envgen.mapf.problem import MAX_AGENTS, Problem, Solution, to_text
from envgen.mapf.solver.boards import MAX_POSITIONS, Answers, Boards, pack, solution_of

if TYPE_CHECKING:
    from numpy import void

BATCH = 1024
"""Problems that are solved together."""
MAX_ENTRIES = 1 << 22
"""Slots for joint positions of a search; a board that needs more is undecided."""

_log = logging.getLogger("envwright.solver")


def solve(problem: Problem) -> Solution | None:
    """Return the plan with the least sum of costs and, among those, the fewest waits; None if there is none.

    The plan is the same on every machine. SolverError if a proof would need more than MAX_ENTRIES.
    """
    return solve_many([problem])[0]


def solve_many(problems: Sequence[Problem]) -> list[Solution | None]:
    """Solve problems as `solve` does, many times faster than one by one."""
    solutions: list[Solution | None] = []
    for first in range(0, len(problems), BATCH):
        batch = problems[first : first + BATCH]
        boards = pack(batch)
        answers = solve_boards(boards)
        for index in np.flatnonzero(answers.status < 0).tolist():
            raise SolverError(
                f"problem {batch[index].id!r}: takes more than {MAX_ENTRIES:,} joint positions to decide; "
                f"use fewer agents or another board:\n{to_text(batch[index])}"
            )
        solved = answers.status > 0
        solutions += [solution_of(boards, answers, i) if solved[i] else None for i in range(len(batch))]
    return solutions


def solve_boards(boards: Boards) -> Answers:
    """Solve boards; a status below 0 marks a board that takes more than MAX_ENTRIES joint positions."""
    from envgen.mapf.solver.kernel import solve_batch

    count = len(boards.size)
    answers = Answers(
        status=np.zeros(count, dtype=np.int64),
        waits=np.zeros(count, dtype=np.int64),
        paths=np.empty((count, MAX_AGENTS, MAX_POSITIONS), dtype=np.uint8),
        arrivals=np.zeros((count, MAX_AGENTS), dtype=np.int64),
    )
    solve_batch(_memory(), boards, answers, MAX_ENTRIES)
    return answers


@cache
def _memory() -> "void":
    """Return the working memory of this process; log a warning if the searches have to be compiled first."""
    from envgen.mapf.solver.kernel import solve_batch
    from envgen.mapf.solver.memory import new_memory

    cached = Path(str(solve_batch.stats.cache_path)).glob("kernel.solve_batch*.nbi")
    if not any(cached):
        _log.warning("compiling the solver for this machine, once; this takes about a minute")
    return new_memory()


def compile_solver() -> None:
    """Compile the searches for this machine and store the machine code, as the first board would."""
    solve_boards(pack([]))
