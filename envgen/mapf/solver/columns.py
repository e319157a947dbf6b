"""Boards as columns, as the searches take them, from problems and back.

Cell (r, c) of a board with n cells a side is bit r * (n + 1) + c; see `envgen.mapf.solver.bitboard`.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from envgen.mapf.problem import MAX_AGENTS, Agent, Cell, Path, Problem, Solution

LONGEST_PLAN = 512
"""Steps of the longest plan that is stored."""


class Boards(NamedTuple):
    """Boards as columns; cells are bit indices."""

    free: np.ndarray
    """[n, 2]: words, as the solver's `bitboard` describes them."""
    stride: np.ndarray
    agents: np.ndarray
    starts: np.ndarray
    """[n, MAX_AGENTS], as `goals`."""
    goals: np.ndarray


class Answers(NamedTuple):
    """Solutions of boards as columns."""

    status: np.ndarray
    """1 + the excess over the sum of distances, 0 without a plan, negative if the board is undecided."""
    waits: np.ndarray
    steps: np.ndarray
    """[n, MAX_AGENTS]: steps that are stored of a path; it may rest on its goal at the end."""
    cells: np.ndarray
    """[n, LONGEST_PLAN, MAX_AGENTS]: where each agent is."""


def pack(problems: Sequence[Problem]) -> Boards:
    """Problems as columns of bit indices."""
    count = len(problems)
    boards = Boards(
        free=np.empty((count, 2), dtype=np.uint64),
        stride=np.array([problem.size + 1 for problem in problems], dtype=np.uint64),
        agents=np.array([problem.num_agents for problem in problems], dtype=np.int64),
        starts=np.zeros((count, MAX_AGENTS), dtype=np.int64),
        goals=np.zeros((count, MAX_AGENTS), dtype=np.int64),
    )
    for index, problem in enumerate(problems):
        stride = problem.size + 1
        free = sum(((1 << problem.size) - 1) << row * stride for row in range(problem.size))
        for row, column in problem.holes:
            free &= ~(1 << row * stride + column)
        boards.free[index] = free & (1 << 64) - 1, free >> 64
        for agent, ends in enumerate(problem.agents):
            boards.starts[index, agent] = ends.start[0] * stride + ends.start[1]
            boards.goals[index, agent] = ends.goal[0] * stride + ends.goal[1]
    return boards


def pack_cells(size: int, holes: np.ndarray, starts: np.ndarray, goals: np.ndarray) -> Boards:
    """Boards of one map size as the solver's columns.

    Cells are numbers: holes [n, number of holes], starts and goals [n, agents].
    """
    bits, words = _bits(size)
    count, agents = starts.shape
    taken = (
        np.bitwise_or.reduce(words[holes], axis=1)
        if holes.shape[1]
        else np.zeros((count, 2), dtype=np.uint64)
    )
    ends = np.zeros((2, count, MAX_AGENTS), dtype=np.int64)
    ends[0, :, :agents], ends[1, :, :agents] = bits[starts], bits[goals]
    return Boards(
        free=np.bitwise_or.reduce(words, axis=0) & ~taken,
        stride=np.full(count, size + 1, dtype=np.uint64),
        agents=np.full(count, agents, dtype=np.int64),
        starts=ends[0],
        goals=ends[1],
    )


def solution_of(boards: Boards, answers: Answers, index: int) -> Solution:
    """The solution of a solved board; not validated again, since it comes from the solver."""
    cells = _cells_of_bits(int(boards.stride[index]))
    paths: list[Path] = []
    for agent in range(int(boards.agents[index])):
        bits = answers.cells[index, : answers.steps[index, agent] + 1, agent].tobytes()
        rested = bits.rstrip(bits[-1:])
        paths.append(tuple([cells[bit] for bit in rested] + [cells[bits[-1]]]))
    costs = [len(path) - 1 for path in paths]
    waits = int(answers.waits[index])
    return Solution.model_construct(
        sum_of_costs=sum(costs), makespan=max(costs), wait_required=waits > 0, waits=waits, plan=tuple(paths)
    )


def problem_of(boards: Boards, index: int) -> Problem:
    """A board as a problem; not validated again."""
    stride = int(boards.stride[index])
    size = stride - 1
    free = int(boards.free[index, 0]) | int(boards.free[index, 1]) << 64
    cells = _cells_of_bits(stride)
    agents = int(boards.agents[index])
    starts, goals = boards.starts[index, :agents].tolist(), boards.goals[index, :agents].tolist()
    return Problem.model_construct(
        id="",
        size=size,
        holes=tuple(
            cells[bit] for bit in range(size * stride) if bit % stride < size and not free >> bit & 1
        ),
        agents=tuple(
            Agent.model_construct(start=cells[start], goal=cells[goal])
            for start, goal in zip(starts, goals, strict=True)
        ),
    )


@cache
def _cells_of_bits(stride: int) -> tuple[Cell, ...]:
    """The cell of each bit index."""
    return tuple(divmod(bit, stride) for bit in range(stride * stride))


@cache
def _bits(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Bit index of every cell number, and the two words in which only that bit is set."""
    bits = np.array([row * (size + 1) + column for row in range(size) for column in range(size)])
    words = np.array([[(1 << bit) & (1 << 64) - 1, 1 << bit >> 64] for bit in bits.tolist()], dtype=np.uint64)
    return bits, words
