"""Optimal plans, the least number of waits and the exact wait label, for any board: every board is decided.

Sum of costs by cost tree, with a proof of solvability before it goes deep and a search over joint positions
where it gives up; which search answers decides speed only. The searches are compiled and loaded at the first
board.
"""

import logging
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from envgen.errors import SolverError
from envgen.mapf.problem import MAX_AGENTS, Problem, Solution, to_text
from envgen.mapf.solver.columns import pack, problem_of, solution_of

if TYPE_CHECKING:
    from envgen.mapf.solver.search import Answers, Boards

UNPROVEN_EXCESS, UNPROVEN_NODES = 16, 200
"""What the cost tree tries before a board is proven solvable.

Excess over the sum of distances, in so many joint moves.
"""
LARGEST_EXCESS = 127
"""All that the cost tree can count."""
PROOF_STEPS = 10_000
"""Joint positions of the first proof."""
SOME_POSITIONS = 400_000
"""Boards with no more joint positions than this go to the joint search early.

The cost tree of NODES_PER_POSITION comes before it, within FEW_TREE_NODES.
"""
NODES_PER_POSITION, FEW_TREE_NODES, LONG_TREE_NODES = 0.25, (200, 40_000), 100_000_000
"""Work of the cost tree on one board, in joint moves, before it gives up."""
PROOF_TABLE, LARGEST_PROOF_TABLE = 1 << 16, 1 << 24
"""Joint positions that a proof of solvability may remember, at first and at most (350 MB)."""
TABLE, LARGEST_TABLE = 1 << 16, 1 << 24
"""Joint positions that the guided search may remember, at first and at most (600 MB)."""

_SOLVED, _UNSOLVABLE, _OPEN = 1, 0, -4
"""FOUND, NOT_FOUND and OPEN of `envgen.mapf.solver.diagrams`, which loads the compiler."""


class Method(StrEnum):
    """Which search decides a board; all find the same costs and waits, plans may differ."""

    EITHER = "either"
    COST_TREE = "cost_tree"
    JOINT = "joint"


_log = logging.getLogger("envwright.solver")


def solve(problem: Problem) -> Solution | None:
    """The plan with the least sum of costs and, among those, the fewest waits; None if there is no plan.

    The plan is the same on every machine. Raises SolverError if a proof would take more than a gigabyte.
    """
    return solve_many([problem])[0]


def solve_many(problems: Sequence[Problem], method: Method = Method.EITHER) -> list[Solution | None]:
    """`solve` for many problems at once, which is many times faster than one by one."""
    if not problems:
        return []
    boards = pack(problems)
    answers = solve_boards(boards, method)
    _refuse_open(boards, answers)
    return [
        solution_of(boards, answers, index) if answers.status[index] >= _SOLVED else None
        for index in range(len(problems))
    ]


def solve_boards(boards: "Boards", method: Method = Method.EITHER) -> "Answers":
    """Solve boards: status 1 + excess over the sum of distances, 0 without a plan, negative if undecided.

    See `envgen.mapf.solver.search`. A board stays undecided if a proof would take more than a gigabyte, or if
    the cost tree alone gives up.
    """
    from envgen.mapf.solver.search import search_trees

    answers = _blank(boards)
    every = np.arange(len(boards.agents))
    nodes = np.full(len(every), UNPROVEN_NODES if method is Method.EITHER else LONG_TREE_NODES)
    search = partial(search_trees, _memory().trees, _memory().component, nodes)
    if method is Method.JOINT:
        answers = _grow_plans(search, boards, answers, every, 1, 0)
        answers.status[answers.status >= _SOLVED] = _OPEN
        answers.written[:] = 0
    else:
        answers = _grow_plans(search, boards, answers, every, 0, UNPROVEN_EXCESS)
    ruled_out = answers.status == _OPEN
    left = _prove(boards, answers, _still_open(answers, every), PROOF_STEPS)
    if method is not Method.JOINT and len(left):
        nodes[left] = LONG_TREE_NODES if method is Method.COST_TREE else _tree_nodes(boards, left)
        answers = _grow_plans(
            search, boards, answers, left[ruled_out[left]], UNPROVEN_EXCESS + 1, LARGEST_EXCESS
        )
        answers = _grow_plans(search, boards, answers, left[~ruled_out[left]], 0, LARGEST_EXCESS)
    left = _prove(boards, answers, _still_open(answers, left), LARGEST_PROOF_TABLE)
    if method is not Method.COST_TREE:
        answers = _search_jointly(boards, answers, left)
    return answers


def _still_open(answers: "Answers", which: np.ndarray) -> np.ndarray:
    return which[answers.status[which] < _UNSOLVABLE]


def _prove(boards: "Boards", answers: "Answers", todo: np.ndarray, steps: int) -> np.ndarray:
    """Prove boards solvable or not; those that are not proven unsolvable, their status open again."""
    from envgen.mapf.solver.component import FULL
    from envgen.mapf.solver.search import prove_boards
    from envgen.mapf.solver.solvability import solvability_space

    left, entries = todo, PROOF_TABLE
    while len(left) and entries <= LARGEST_PROOF_TABLE:
        space = (
            _memory().proofs if entries == PROOF_TABLE else solvability_space(_memory().component, entries)
        )
        prove_boards(space, boards, answers, left, steps)
        left = left[answers.status[left] == FULL]
        entries *= 16
    left = todo[answers.status[todo] != _UNSOLVABLE]
    answers.status[left] = _OPEN
    return left


def _blank(boards: "Boards") -> "Answers":
    from envgen.mapf.solver.component import LONGEST_PLAN
    from envgen.mapf.solver.search import Answers

    def integers() -> np.ndarray:
        return np.zeros(len(boards.agents), dtype=np.int64)

    room = 32 * int(boards.agents.sum()) + MAX_AGENTS * LONGEST_PLAN
    return Answers(
        status=integers(),
        waits=integers(),
        steps=integers(),
        offset=integers(),
        cells=np.empty(room, dtype=np.uint8),
        written=np.zeros(1, dtype=np.int64),
    )


def _grow_plans(
    search: Callable[..., int], boards: "Boards", answers: "Answers", todo: np.ndarray, *limits: int
) -> "Answers":
    """Run a search, working memory given, over `todo`, doubling the buffer of plans whenever it is full."""
    while (done := search(boards, answers, todo, *limits)) < len(todo):
        todo = todo[done:]
        answers = answers._replace(cells=np.concatenate([answers.cells, np.empty_like(answers.cells)]))
    return answers


def _search_jointly(boards: "Boards", answers: "Answers", todo: np.ndarray) -> "Answers":
    """Joint search of solvable boards, with larger tables for those that need them."""
    from envgen.mapf.solver.component import FULL
    from envgen.mapf.solver.joint_search import joint_space
    from envgen.mapf.solver.search import search_jointly

    entries = TABLE
    while len(todo) and entries <= LARGEST_TABLE:
        space = _memory().joint if entries == TABLE else joint_space(_memory().component, entries)
        answers = _grow_plans(partial(search_jointly, space), boards, answers, todo)
        todo = todo[answers.status[todo] == FULL]
        entries *= 16
    return answers


def _tree_nodes(boards: "Boards", which: np.ndarray) -> np.ndarray:
    """Joint moves after which the cost tree hands a board over to the joint search."""
    from envgen.mapf.solver.search import count_positions

    positions = np.zeros(len(boards.agents), dtype=np.int64)
    count_positions(_memory().component, boards, which, positions)
    few = np.clip(NODES_PER_POSITION * positions[which], *FEW_TREE_NODES)
    return np.where(positions[which] <= SOME_POSITIONS, few, LONG_TREE_NODES)


def _refuse_open(boards: "Boards", answers: "Answers") -> None:
    for index in np.flatnonzero(answers.status < _UNSOLVABLE):
        raise SolverError(
            f"the following board takes more memory than {LARGEST_TABLE:,} joint positions to decide; "
            "use fewer agents or another board:\n"
            f"{to_text(problem_of(boards, int(index)))}"
        )


class _Memory(NamedTuple):
    """The process's working memory of the searches."""

    trees: Any
    component: Any
    proofs: Any
    joint: Any


@cache
def _memory() -> _Memory:
    """Made once, at the first board; says so if the searches must be compiled first."""
    from envgen.mapf.compiled import cache_directory
    from envgen.mapf.solver.component import component_space
    from envgen.mapf.solver.diagrams import tree_space
    from envgen.mapf.solver.joint_search import joint_space
    from envgen.mapf.solver.solvability import solvability_space

    if not any(cache_directory().rglob("search.search_trees*.nbi")):
        _log.warning("compiling the solver for this machine, once; this takes about a minute")
    component = component_space()
    return _Memory(
        tree_space(), component, solvability_space(component, PROOF_TABLE), joint_space(component, TABLE)
    )
