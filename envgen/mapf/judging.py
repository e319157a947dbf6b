"""Many plans judged at once, over arrays, by compiled code: numba is loaded at the first plan judged."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from envgen.mapf.judgement import JUDGEMENT
from envgen.mapf.problem import MAX_AGENTS, MAX_SIZE, Plan, Problem


class Boards(NamedTuple):
    """The boards of a batch, one row each."""

    sizes: np.ndarray
    """int64 (boards,): side lengths."""
    agents: np.ndarray
    """int64 (boards,): numbers of agents."""
    ends: np.ndarray
    """int64 (boards, 5, 4): row, column of each agent's start, then of its goal; 0 beyond `agents`."""
    holes: np.ndarray
    """uint8 (boards, 10, 10): 1 where a hole is."""


class Plans(NamedTuple):
    """The plans of a batch: all paths one after another, a plan's in the order of its board's agents."""

    board: np.ndarray
    """int64 (plans,): the row of `Boards` that a plan is for."""
    optimum: np.ndarray
    """int64 (plans,): the least sum of costs, -1 if unknown."""
    stops: np.ndarray
    """int64 (paths,): a path's end in `cells`; it begins where the one before ends, and is not empty."""
    cells: np.ndarray
    """int64 (cells, 2): row and column."""


def boards_of(problems: Sequence[Problem]) -> tuple[Boards, np.ndarray]:
    """The boards of `problems`, each object once, and for each problem its row."""
    rows: dict[int, int] = {}
    distinct: list[Problem] = []
    index = np.empty(len(problems), np.int64)
    for place, problem in enumerate(problems):
        row = rows.setdefault(id(problem), len(distinct))
        if row == len(distinct):
            distinct.append(problem)
        index[place] = row
    ends: list[int] = []
    holes = bytearray(len(distinct) * MAX_SIZE * MAX_SIZE)
    for row, problem in enumerate(distinct):
        for agent in problem.agents:
            ends += agent.start
            ends += agent.goal
        ends += (0,) * (4 * (MAX_AGENTS - len(problem.agents)))
        first = row * MAX_SIZE * MAX_SIZE
        for r, c in problem.holes:
            holes[first + r * MAX_SIZE + c] = 1
    boards = Boards(
        sizes=np.array([problem.size for problem in distinct], np.int64),
        agents=np.array([len(problem.agents) for problem in distinct], np.int64),
        ends=np.array(ends, np.int64).reshape(-1, MAX_AGENTS, 4),
        holes=np.frombuffer(holes, np.uint8).reshape(-1, MAX_SIZE, MAX_SIZE),
    )
    return boards, index


def cells_of(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """(stops, cells) of one plan, as in `Plans`; ValueError if a path is empty."""
    if not all(plan):
        raise ValueError("a path of the plan is empty; every path begins with its agent's start")
    cells = np.array([number for path in plan for cell in path for number in cell], np.int64).reshape(-1, 2)
    return np.cumsum([len(path) for path in plan]), cells


def read_cells(paths: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(stops, cells), as in `Plans`, of paths that `envgen.mapf.parser.plan_lines` found in answers."""
    from envgen.mapf import judging_kernel

    text = "\n".join([*paths, ""]).encode("ascii")
    stops, cells = np.empty(len(paths), np.int64), np.empty((text.count(b"("), 2), np.int64)
    judging_kernel.read_cells(np.frombuffer(text, np.uint8), stops, cells)
    return stops, cells


def judge(boards: Boards, plans: Plans) -> np.ndarray:
    """Judge plans: `JUDGEMENT` (plans,); ValueError if the boards' agents and the paths do not add up."""
    from envgen.mapf import judging_kernel

    paths = int(boards.agents[plans.board].sum())
    if paths != len(plans.stops):
        raise ValueError(f"{len(plans.stops)} paths for {paths} agents; a plan has one path an agent")
    found = np.zeros(len(plans.board), JUDGEMENT)
    judging_kernel.judge(
        *boards, *plans, found, np.empty(MAX_AGENTS, np.int64), np.empty(MAX_AGENTS, np.int64)
    )
    return found
