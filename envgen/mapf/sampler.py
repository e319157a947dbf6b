"""Draw boards of one map size with exact counts of boards that need a wait and of boards that do not.

Distribution: holes are uniform among all placements, starts uniform among ordered sets of free cells, goals
likewise with no agent's goal on its own start. Unsolvable boards are dropped, and those whose canonical
identity was drawn before or is held out: a data set is a sample without replacement, in which a board that is
its own image under a symmetry is rarer. Draws come in shards of fixed size, each seeded by (seed, stage,
purpose, map size, agents, shard): the k-th board of a class depends on no request before it.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from envgen.environment import Sample, Source
from envgen.errors import SamplingError, ShortageError
from envgen.mapf.problem import Instance, identity
from envgen.mapf.solver.columns import Answers, Boards, pack_cells, problem_of, solution_of
from envgen.mapf.solver.solve import solve_boards
from envgen.seeds import generator

SHARD_DRAWS = 256
MIN_BATCH, MAX_BATCH = 32, 4096
"""Draws that are solved together."""
FRUITLESS_DRAWS = 200_000
"""A class is given up after this many draws without a new board, counted in blocks of MAX_BATCH."""
REMEDY = "ask for fewer or change hole_ratio or wait_ratio"


def hole_count(size: int, hole_ratio: float, count: int, agents: int) -> int:
    """Return the holes of each of `count` boards; SamplingError if they leave the agents no room to move."""
    cells = size * size
    holes = int(hole_ratio * cells + 1e-9)
    if count and cells - holes <= agents:
        limit = int(100 * (cells - agents - 1) / cells) / 100
        raise SamplingError(
            f"map size {size}: hole_ratio {hole_ratio:g} leaves {cells - holes} free cells for {agents} "
            f"agents; use hole_ratio at most {limit:.2f}, fewer agents or a larger map"
        )
    return holes


def draw_size(
    size: int, knobs: Mapping[str, float], count: int, agents: int, source: Source, held_out: frozenset[str]
) -> Sample:
    """Draw `count` distinct boards of one map size, none of them held out.

    The boards without a wait come first. The report counts the holes of a board, the boards drawn until both
    wait classes were full, and those that the solver could not decide and that others replaced.
    ShortageError holds the boards drawn if a class has too few.
    """
    holes = hole_count(size, knobs["hole_ratio"], count, agents)
    with_wait = int(knobs["wait_ratio"] * count + 0.5)
    wanted = {False: count - with_wait, True: with_wait}
    boards: dict[bool, list[Instance]] = {False: [], True: []}
    seen, draws, undecided, last_used = set(held_out), 0, 0, -1
    fruitless, seen_before_block = 0, len(seen)
    while any(len(boards[waits]) < wanted[waits] for waits in boards) and fruitless < FRUITLESS_DRAWS:
        batch_size = _batch_size(boards, wanted, draws)
        batch = draw_boards(size, agents, holes, source, draws, batch_size)
        undecided += int((batch.answers.status < 0).sum())
        for index in np.flatnonzero(batch.answers.status > 0).tolist():
            waits = bool(batch.answers.waits[index])
            if len(boards[waits]) == wanted[waits]:
                continue
            problem = problem_of(batch.boards, index)
            id = identity(problem)
            if id not in seen:
                seen.add(id)
                last_used = int(batch.numbers[index])
                problem, solution = problem.model_copy(update={"id": id}), solution_of(*batch[:2], index)
                boards[waits].append(Instance.model_construct(problem=problem, solution=solution))
        draws += batch_size
        if draws % MAX_BATCH == 0:
            fruitless = fruitless + MAX_BATCH if len(seen) == seen_before_block else 0
            seen_before_block = len(seen)
    instances = boards[False] + boards[True]
    if len(instances) < count:
        short = " and ".join(
            f"only {len(boards[waits])} of {wanted[waits]} distinct boards that need {need} wait"
            for waits, need in ((False, "no"), (True, "a"))
            if len(boards[waits]) < wanted[waits]
        )
        place = f"map size {size} with {agents} agents and {holes} holes"
        raise ShortageError(f"{place}: {short} after {draws:,} draws; {REMEDY}", instances)
    report = {"instances": count, "wait_instances": with_wait, "holes": holes}
    return Sample(instances, {**report, "draws": last_used + 1, "undecided": undecided})


def _batch_size(boards: dict[bool, list[Instance]], wanted: dict[bool, int], draws: int) -> int:
    """Return the number of draws that is likely to fill both classes, within a block of MAX_BATCH."""
    likely = float(sum(wanted.values()))
    if draws:
        likely = max((wanted[c] - len(boards[c])) / (max(1, len(boards[c])) / draws) for c in boards)
    size = max(MIN_BATCH, int(likely / MIN_BATCH + 1) * MIN_BATCH)
    return min(size, MAX_BATCH - draws % MAX_BATCH)


class DrawnBoards(NamedTuple):
    """Boards of consecutive draws with the solver's answers, without those whose agent starts on its goal."""

    boards: Boards
    answers: Answers
    numbers: np.ndarray
    """int (n,): number of each draw, from 0."""


def draw_boards(size: int, agents: int, holes: int, source: Source, first: int, count: int) -> DrawnBoards:
    """Draw and solve the boards `first` to `first + count - 1` of a class."""
    free = size * size - holes
    orders, picks = [], []
    for shard in range(first // SHARD_DRAWS, -(-(first + count) // SHARD_DRAWS)):
        part = slice(max(0, first - shard * SHARD_DRAWS), first + count - shard * SHARD_DRAWS)
        cell_keys, goal_keys = _random_keys(*source.key, size, agents, shard, free)
        orders.append(cell_keys[part].argsort(axis=1))
        picks.append(goal_keys[part].argsort(axis=1)[:, :agents])
    order, pick = np.concatenate(orders), np.concatenate(picks)
    moving = (pick != np.arange(agents)).all(axis=1)
    order, pick = order[moving], pick[moving]
    goals = np.take_along_axis(order, pick + holes, axis=1)
    boards = pack_cells(size, order[:, :holes], order[:, holes : holes + agents], goals)
    return DrawnBoards(boards, solve_boards(boards), first + np.flatnonzero(moving))


@lru_cache(maxsize=2)
def _random_keys(
    seed: int, stage: int, purpose: str, size: int, agents: int, shard: int, free: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return sort keys that shuffle all cells (draws, cells) and the goals of free cells (draws, free)."""
    rng = generator(seed, stage, purpose, size, agents, shard)
    return rng.random((SHARD_DRAWS, size * size)), rng.random((SHARD_DRAWS, free))
