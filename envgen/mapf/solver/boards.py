"""Boards as columns, as the solver takes them, from problems and back."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from envgen.mapf.problem import MAX_AGENTS, MAX_CELLS, Agent, Cell, Path, Plan, Problem, Solution

MAX_POSITIONS = 512
"""Positions of the longest path that is stored."""


class Boards(NamedTuple):
    """Boards as columns; cells are numbered row * size + column."""

    size: np.ndarray
    agents: np.ndarray
    free: np.ndarray
    """[n, MAX_CELLS]: whether a cell is frozen, not a hole; cells beyond the board are ignored."""
    starts: np.ndarray
    """[n, MAX_AGENTS]: cells, as in goals."""
    goals: np.ndarray


class Answers(NamedTuple):
    """Solutions of boards as columns."""

    status: np.ndarray
    """1 + excess over the sum of distances, 0 if there is no plan, -1 if the board is undecided."""
    waits: np.ndarray
    paths: np.ndarray
    """[n, MAX_AGENTS, MAX_POSITIONS]: the cells of each path up to its last arrival."""
    arrivals: np.ndarray
    """[n, MAX_AGENTS]: moves up to the last arrival."""


def pack(problems: Sequence[Problem]) -> Boards:
    """Problems as columns."""
    count = len(problems)
    boards = Boards(
        size=np.array([problem.size for problem in problems], dtype=np.int64),
        agents=np.array([problem.num_agents for problem in problems], dtype=np.int64),
        free=np.ones((count, MAX_CELLS), dtype=np.bool_),
        starts=np.zeros((count, MAX_AGENTS), dtype=np.int64),
        goals=np.zeros((count, MAX_AGENTS), dtype=np.int64),
    )
    for index, problem in enumerate(problems):
        size = problem.size
        boards.free[index, [row * size + column for row, column in problem.holes]] = False
        for agent, (start, goal) in enumerate((agent.start, agent.goal) for agent in problem.agents):
            boards.starts[index, agent] = start[0] * size + start[1]
            boards.goals[index, agent] = goal[0] * size + goal[1]
    return boards


def pack_cells(size: int, holes: np.ndarray, starts: np.ndarray, goals: np.ndarray) -> Boards:
    """Boards of one map size as columns; holes [n, holes], starts and goals [n, agents] are cells."""
    count, agents = starts.shape
    free = np.ones((count, MAX_CELLS), dtype=np.bool_)
    np.put_along_axis(free, holes, False, axis=1)
    ends = np.zeros((2, count, MAX_AGENTS), dtype=np.int64)
    ends[0, :, :agents], ends[1, :, :agents] = starts, goals
    return Boards(np.full(count, size), np.full(count, agents), free, ends[0], ends[1])


def plan_of(boards: Boards, answers: Answers, index: int) -> Plan:
    """The plan of a solved board."""
    cells = _cells(int(boards.size[index]))
    paths: list[Path] = []
    for agent in range(int(boards.agents[index])):
        path = answers.paths[index, agent, : answers.arrivals[index, agent] + 1]
        paths.append(tuple([cells[cell] for cell in path.tolist()]))
    return tuple(paths)


def solution_of(boards: Boards, answers: Answers, index: int) -> Solution:
    """The solution of a solved board; not validated again, since it comes from the solver."""
    plan = plan_of(boards, answers, index)
    costs = [len(path) - 1 for path in plan]
    waits = int(answers.waits[index])
    return Solution.model_construct(
        sum_of_costs=sum(costs), makespan=max(costs), wait_required=waits > 0, waits=waits, plan=plan
    )


def problem_of(boards: Boards, index: int, identity: str = "") -> Problem:
    """A board as a problem; not validated again."""
    size, agents = int(boards.size[index]), int(boards.agents[index])
    cells = _cells(size)
    holes = np.flatnonzero(~boards.free[index, : size * size]).tolist()
    starts, goals = boards.starts[index, :agents].tolist(), boards.goals[index, :agents].tolist()
    return Problem.model_construct(
        id=identity,
        size=size,
        holes=tuple([cells[hole] for hole in holes]),
        agents=tuple(
            Agent.model_construct(start=cells[start], goal=cells[goal])
            for start, goal in zip(starts, goals, strict=True)
        ),
    )


@cache
def _cells(size: int) -> tuple[Cell, ...]:
    return tuple(divmod(cell, size) for cell in range(size * size))
