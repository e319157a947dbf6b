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
    """Problems, at least one, as columns of bit indices."""

    def packed(problem: Problem) -> Boards:
        starts, goals = [a.start for a in problem.agents], [a.goal for a in problem.agents]
        parts = (problem.holes, starts, goals)
        numbers = [[[row * problem.size + column for row, column in cells]] for cells in parts]
        return pack_cells(problem.size, *(np.array(each, dtype=np.int64) for each in numbers))

    return Boards(*map(np.concatenate, zip(*map(packed, problems), strict=True)))


def pack_cells(size: int, holes: np.ndarray, starts: np.ndarray, goals: np.ndarray) -> Boards:
    """Boards of one map size as the solver's columns.

    Cells are numbers: holes [n, number of holes], starts and goals [n, agents].
    """
    bits, words = _bits(size)
    count, agents = starts.shape
    ends = np.zeros((2, count, MAX_AGENTS), dtype=np.int64)
    ends[0, :, :agents], ends[1, :, :agents] = bits[starts], bits[goals]
    return Boards(
        free=np.bitwise_or.reduce(words, axis=0) & ~np.bitwise_or.reduce(words[holes], axis=1),
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
