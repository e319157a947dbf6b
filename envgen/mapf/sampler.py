"""Draw boards of one map size with exact counts of boards that need a wait and of boards that do not.

Distribution: holes are uniform among all placements, starts uniform among ordered sets of free cells, goals
likewise with no agent's goal on its own start; unsolvable boards are dropped. So every labelled board of a
class (map size, agents, holes, wait or no wait) is equally likely to be drawn next. Boards whose canonical
identity was drawn before, or is held out, are dropped too: a data set is a sample without replacement, in
which a board that is its own image under a symmetry is rarer, as it has fewer labelled forms. Draws come in
shards of fixed size, each seeded by (seed, stage, purpose, map size, agents, shard) and consumed in order:
the k-th board of a class depends on nothing that was asked for before it.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from envgen.environment import Source
from envgen.errors import SamplingError, ShortageError
from envgen.frozen import Frozen
from envgen.mapf.problem import Instance, cells_identity
from envgen.mapf.solver.columns import Answers, Boards, pack_cells, problem_of, solution_of
from envgen.mapf.solver.solve import solve_boards
from envgen.seeds import generator

SHARD_DRAWS = 256
MIN_BATCH, MAX_BATCH = 32, 4096
"""Draws that are solved together."""
FRUITLESS_DRAWS = 200_000
"""A class is given up after this many draws without a new board, counted in blocks of MAX_BATCH."""


class Quota(NamedTuple):
    """Number of boards to draw of one map size, agents and holes."""

    size: int
    agents: int
    holes: int
    without_wait: int
    with_wait: int


class SizeReport(Frozen):
    """What was asked for and what was drawn of one map size."""

    instances: int
    wait_instances: int
    holes: int
    """Holes per board."""
    requested_wait_ratio: float
    achieved_wait_ratio: float
    draws: int
    """Boards drawn until both wait classes were full."""
    undecided: int
    """Boards that the solver could not decide; others were drawn in their place."""

    def line(self, size: int) -> str:
        """Return the report as a line of a log."""
        undecided = f", {self.undecided} of them undecided" if self.undecided else ""
        counts = f"{self.instances} instances, {self.wait_instances} need a wait"
        return f"{size}x{size}: {counts}, {self.draws} boards drawn{undecided}"


def quota_of(size: int, knobs: Mapping[str, float], count: int, agents: int) -> Quota:
    """Return the quota of `count` boards; SamplingError if the holes leave no room for the agents to move."""
    cells, with_wait = size * size, int(knobs["wait_ratio"] * count + 0.5)
    holes = int(knobs["hole_ratio"] * cells + 1e-9)
    if count and cells - holes <= agents:
        limit = int(100 * (cells - agents - 1) / cells) / 100
        raise SamplingError(
            f"map size {size}: hole_ratio {knobs['hole_ratio']:g} leaves {cells - holes} free cells for "
            f"{agents} agents; use hole_ratio at most {limit:.2f}, fewer agents or a larger map"
        )
    return Quota(size, agents, holes, count - with_wait, with_wait)


def draw_size(
    size: int, knobs: Mapping[str, float], count: int, agents: int, source: Source, held_out: frozenset[str]
) -> tuple[list[Instance], SizeReport]:
    """Draw `count` distinct boards of one map size, none of them held out.

    The boards without a wait come first. ShortageError holds the boards drawn if the class has too few.
    """
    quota = quota_of(size, knobs, count, agents)
    drawn = _Draw(quota, held_out)
    while not drawn.full and drawn.fruitless < FRUITLESS_DRAWS:
        drawn.add(draw_boards(size, agents, quota.holes, source, drawn.draws, drawn.next_batch()))
    boards = drawn.without_wait + drawn.with_wait
    if not drawn.full:
        raise ShortageError(drawn.shortage(), boards)
    return boards, SizeReport(
        instances=len(boards),
        wait_instances=len(drawn.with_wait),
        holes=quota.holes,
        requested_wait_ratio=knobs["wait_ratio"],
        achieved_wait_ratio=len(drawn.with_wait) / count if count else 0.0,
        draws=drawn.last_used + 1,
        undecided=drawn.undecided,
    )


class DrawnBoards(NamedTuple):
    """Boards of consecutive draws with the solver's answers, without those whose agent starts on its goal."""

    boards: Boards
    answers: Answers
    cells: np.ndarray
    """int (n, cells): cell numbers, the holes first."""
    starts: np.ndarray
    """int (n, agents), as `goals`."""
    goals: np.ndarray
    numbers: np.ndarray
    """int (n,): number of each draw, from 0."""
    draws: int
    """Number of draws, boards that are left out included."""


def draw_boards(size: int, agents: int, holes: int, source: Source, first: int, count: int) -> DrawnBoards:
    """Draw and solve the boards `first` to `first + count - 1` of a class."""
    free = size * size - holes
    orders, picks = [], []
    for shard in range(first // SHARD_DRAWS, -(-(first + count) // SHARD_DRAWS)):
        part = slice(max(0, first - shard * SHARD_DRAWS), first + count - shard * SHARD_DRAWS)
        cell_keys, goal_keys = _random_keys(*source, size, agents, shard, free)
        orders.append(cell_keys[part].argsort(axis=1))
        picks.append(goal_keys[part].argsort(axis=1)[:, :agents])
    order, pick = np.concatenate(orders), np.concatenate(picks)
    moving = (pick != np.arange(agents)).all(axis=1)
    order, pick = order[moving], pick[moving]
    starts = order[:, holes : holes + agents]
    goals = np.take_along_axis(order, pick + holes, axis=1)
    boards = pack_cells(size, order[:, :holes], starts, goals)
    numbers = first + np.flatnonzero(moving)
    return DrawnBoards(boards, solve_boards(boards), order, starts, goals, numbers, count)


@lru_cache(maxsize=2)
def _random_keys(
    seed: int, stage: int, purpose: str, size: int, agents: int, shard: int, free: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return sort keys that shuffle all cells (draws, cells) and the goals of free cells (draws, free)."""
    rng = generator(seed, stage, purpose, size, agents, shard)
    return rng.random((SHARD_DRAWS, size * size)), rng.random((SHARD_DRAWS, free))


class _Draw:
    """Boards of both wait classes as they fill up from consecutive draws."""

    def __init__(self, quota: Quota, held_out: frozenset[str]) -> None:
        self.quota, self.seen = quota, set(held_out)
        self.without_wait: list[Instance] = []
        self.with_wait: list[Instance] = []
        self.draws = self.fruitless = self.undecided = 0
        self.last_used = -1
        """Number of the last draw that added a board."""
        self._at_block = 0
        """Boards at the end of the last block of MAX_BATCH draws."""

    @property
    def _classes(self) -> tuple[tuple[list[Instance], int], tuple[list[Instance], int]]:
        """Boards and wanted number, without a wait and with one."""
        return (self.without_wait, self.quota.without_wait), (self.with_wait, self.quota.with_wait)

    @property
    def full(self) -> bool:
        """Whether both classes have their number of boards."""
        return all(len(boards) == wanted for boards, wanted in self._classes)

    def next_batch(self) -> int:
        """Return the number of draws that is likely to fill the classes, within a block of MAX_BATCH."""
        if self.draws:
            rates = [max(1, len(boards)) / self.draws for boards, _ in self._classes]
            missing = [wanted - len(boards) for boards, wanted in self._classes]
            likely = max(number / rate for number, rate in zip(missing, rates, strict=True))
        else:
            likely = self.quota.without_wait + self.quota.with_wait
        size = max(MIN_BATCH, int(likely / MIN_BATCH + 1) * MIN_BATCH)
        return min(size, MAX_BATCH - self.draws % MAX_BATCH)

    def add(self, batch: DrawnBoards) -> None:
        """Keep the boards of a batch that are new, in order, until their class is full."""
        solved, waiting = batch.answers.status > 0, batch.answers.waits > 0
        self.undecided += int((batch.answers.status < 0).sum())
        self._keep(batch, np.flatnonzero(solved & ~waiting), *self._classes[0])
        self._keep(batch, np.flatnonzero(solved & waiting), *self._classes[1])
        self.draws += batch.draws
        if self.draws % MAX_BATCH == 0:
            count = len(self.without_wait) + len(self.with_wait)
            self.fruitless = self.fruitless + MAX_BATCH if count == self._at_block else 0
            self._at_block = count

    def _keep(
        self, batch: DrawnBoards, candidates: np.ndarray, instances: list[Instance], wanted: int
    ) -> None:
        for index in candidates.tolist():
            if len(instances) == wanted:
                return
            columns = (batch.cells[index, : self.quota.holes], batch.starts[index], batch.goals[index])
            id = cells_identity(self.quota.size, *(column.tolist() for column in columns))
            if id not in self.seen:
                self.seen.add(id)
                self.last_used = max(self.last_used, int(batch.numbers[index]))
                problem = problem_of(batch.boards, index, id)
                solution = solution_of(batch.boards, batch.answers, index)
                instances.append(Instance.model_construct(problem=problem, solution=solution))

    def shortage(self) -> str:
        """Return the message for classes with too few boards."""
        missing = [
            f"only {len(boards)} of {wanted} distinct boards that need {need}"
            for (boards, wanted), need in zip(self._classes, ("no wait", "a wait"), strict=True)
            if len(boards) < wanted
        ]
        place = f"map size {self.quota.size} with {self.quota.agents} agents and {self.quota.holes} holes"
        remedy = "ask for fewer or change hole_ratio or wait_ratio"
        return f"{place}: {' and '.join(missing)} after {self.draws:,} draws; {remedy}"
