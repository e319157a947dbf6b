"""Draw instances of an environment config with exact counts per map size and wait class.

Which distribution: holes are uniform among all placements of floor(hole_ratio * size^2) holes, starts uniform
among ordered sets of free cells, goals likewise with no agent's goal on its own start; unsolvable boards are
thrown away. So every labelled board of a class (map size, agents, holes, wait or no wait) is equally likely
to be drawn next. Boards whose canonical identity was already drawn, or is held out, are thrown away too: a
data set is a sample without replacement, in which a board that is its own image under a symmetry is rarer, as
it has fewer labelled forms. Draws come in shards of fixed size, each seeded by (seed, stage, purpose, map
size, agents, shard) and consumed in order: which board is the k-th of its class depends on nothing that was
asked before it.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import Field

from envgen.errors import ShortageError
from envgen.frozen import Frozen
from envgen.mapf.capacity import Capacity
from envgen.mapf.config import BoardsConfig
from envgen.mapf.problem import Instance, identities
from envgen.mapf.quota import Quota, known_capacity, quotas, shortage
from envgen.mapf.solver.columns import pack_cells, problem_of, solution_of
from envgen.mapf.solver.solve import solve_boards
from envgen.seeds import generator

if TYPE_CHECKING:
    from envgen.mapf.solver.search import Answers, Boards

SHARD_DRAWS = 256
FEWEST_DRAWS, MOST_DRAWS = 32, 4096
"""Draws that are solved together."""
FRUITLESS_DRAWS = 200_000
"""A class is given up after this many draws that added nothing to it, counted in blocks of MOST_DRAWS."""
Kept = tuple[list[Instance], list[Instance]]
"""Instances of both wait classes: those that need no wait, those that need one."""


class SizeReport(Frozen):
    """What was asked and what was achieved for one map size."""

    instances: int = Field(ge=0)
    wait_instances: int = Field(ge=0)
    holes: int = Field(ge=0)
    """Holes per board."""
    requested_wait_ratio: float
    achieved_wait_ratio: float
    draws: int = Field(ge=0)
    """Boards drawn until both wait classes were full."""

    def line(self, size: int) -> str:
        """What was achieved for this map size, as a log says it."""
        return (
            f"{size}x{size}: {self.instances} instances, {self.wait_instances} need a wait, "
            f"{self.draws} boards drawn"
        )


class SamplingReport(Frozen):
    """What a data set asked for and what it got, per map size."""

    sizes: dict[int, SizeReport]


def sample(
    config: BoardsConfig,
    count: int,
    *,
    agents: int = 2,
    seed: int,
    stage: int = 0,
    purpose: str = "train",
    held_out: frozenset[str] = frozenset(),
    progress: Callable[[str], None] | None = None,
) -> tuple[list[Instance], SamplingReport]:
    """Draw `count` distinct instances of `config`, smallest map first, and say what was achieved.

    `held_out` holds canonical identities that must not appear. Raises ShortageError when a class holds too
    few distinct boards, and logs a warning when more than half of a class is asked for.
    """
    instances: list[Instance] = []
    reports = {}
    source = {"seed": seed, "stage": stage, "purpose": purpose}
    todo = quotas(config, count, agents)
    for quota in todo:
        wait_ratio = config.sizes[quota.size].wait_ratio
        drawn, report = sample_size(quota, wait_ratio, **source, held_out=held_out)
        instances += drawn
        reports[quota.size] = report
        if progress and drawn:
            progress(report.line(quota.size))
    return instances, SamplingReport(sizes=reports)


def sample_size(
    quota: Quota,
    wait_ratio: float,
    *,
    seed: int,
    stage: int,
    purpose: str,
    held_out: frozenset[str],
) -> tuple[list[Instance], SizeReport]:
    """The part of `sample` that one map size is.

    What it draws depends on no other map size. `wait_ratio` is what was asked for. ShortageError has what
    there is of a class that holds too little.
    """
    held = known_capacity(quota)
    draw = partial(draw_boards, quota, seed, stage, purpose)
    kept, draws = _fill(quota, held, draw, held_out)
    drawn = kept[False] + kept[True]
    if len(drawn) < sum(quota.wanted):
        if held and any(there < asked for there, asked in zip(held, quota.wanted, strict=True)):
            raise ShortageError(shortage(quota, "there are", held, "in all"), drawn)
        found = Capacity(len(kept[False]), len(kept[True]))
        where = f"after {draws} draws, the last {FRUITLESS_DRAWS} of them without a new one"
        raise ShortageError(shortage(quota, "found", found, where), drawn)
    return drawn, SizeReport(
        instances=len(drawn),
        wait_instances=len(kept[True]),
        holes=quota.holes,
        requested_wait_ratio=wait_ratio,
        achieved_wait_ratio=len(kept[True]) / len(drawn) if drawn else 0.0,
        draws=draws,
    )


class DrawnBoards(NamedTuple):
    """Boards of consecutive draws, with what the solver says of them.

    Draws with an agent that starts on its goal are left out.
    """

    boards: "Boards"
    answers: "Answers"
    cells: np.ndarray
    """[n, cells]: the holes first."""
    starts: np.ndarray
    goals: np.ndarray
    number: np.ndarray
    """[n]: which draw of the class each is."""


def draw_boards(quota: Quota, seed: int, stage: int, purpose: str, first: int, count: int) -> DrawnBoards:
    """Draw and solve boards `first` to `first + count - 1` of a class."""
    free = quota.size * quota.size - quota.holes
    orders, picks = [], []
    for shard in range(first // SHARD_DRAWS, -(-(first + count) // SHARD_DRAWS)):
        here = slice(max(0, first - shard * SHARD_DRAWS), first + count - shard * SHARD_DRAWS)
        for_cells, for_picks = _random_keys(seed, stage, purpose, quota.size, quota.agents, shard, free)
        orders.append(for_cells[here].argsort(axis=1))
        picks.append(for_picks[here].argsort(axis=1)[:, : quota.agents])
    order, pick = np.concatenate(orders), np.concatenate(picks)
    moving = (pick != np.arange(quota.agents)).all(axis=1)
    order, pick = order[moving], pick[moving]
    starts = order[:, quota.holes : quota.holes + quota.agents]
    goals = np.take_along_axis(order, pick + quota.holes, axis=1)
    boards = pack_cells(quota.size, order[:, : quota.holes], starts, goals)
    return DrawnBoards(boards, solve_boards(boards), order, starts, goals, first + np.flatnonzero(moving))


@lru_cache(maxsize=2)
def _random_keys(
    seed: int, stage: int, purpose: str, size: int, agents: int, shard: int, free: int
) -> tuple[np.ndarray, np.ndarray]:
    """Keys whose order shuffles the cells of a shard's boards, and the goals among the free ones.

    Their shapes are [draws, cells] and [draws, free].
    """
    rng = generator(seed, stage, purpose, size, agents, shard)
    return rng.random((SHARD_DRAWS, size * size)), rng.random((SHARD_DRAWS, free))


def _fill(
    quota: Quota,
    held: Capacity | None,
    draw: Callable[[int, int], DrawnBoards],
    held_out: frozenset[str],
) -> tuple[Kept, int]:
    """Consume draws in order until both wait classes are full, or given up.

    Returns what was kept and the number of draws that took.
    """
    wanted, kept, seen = quota.wanted, ([], []), set(held_out)
    enough = [min(pair) for pair in zip(wanted, held or wanted, strict=True)]
    drawn = useful = fruitless = 0
    last = -1
    if not any(wanted):
        return kept, 0

    def next_size(first: int) -> int:
        """How many draws to solve next: what is likely to be enough, within a block."""
        likely = float(sum(wanted))
        if first:
            pairs = zip(enough, kept, strict=True)
            left = [(most - len(got)) * max(1, drawn) / max(1, len(got)) for most, got in pairs]
            likely = max(left)
        size = max(FEWEST_DRAWS, int(likely / FEWEST_DRAWS + 1) * FEWEST_DRAWS)
        return min(size, MOST_DRAWS - first % MOST_DRAWS)

    while True:
        size = next_size(drawn)
        batch = draw(drawn, size)
        solved, waiting = batch.answers.status > 0, batch.answers.waits > 0
        for waits in (False, True):
            candidates = np.flatnonzero(solved & (waiting == waits))
            last = max(last, _keep_new(batch, candidates, quota, kept[waits], wanted[waits], seen))
        drawn += size
        if list(map(len, kept)) == enough:
            return kept, last + 1
        if drawn % MOST_DRAWS == 0:
            found = len(kept[False]) + len(kept[True])
            fruitless = fruitless + MOST_DRAWS if found == useful else 0
            useful = found
            if fruitless >= FRUITLESS_DRAWS:
                break
    return kept, drawn


def _keep_new(
    drawn: DrawnBoards,
    candidates: np.ndarray,
    quota: Quota,
    kept: list[Instance],
    wanted: int,
    seen: set[str],
) -> int:
    """Add candidates that were not seen to `kept`, in order, until there are `wanted`.

    Returns the number of the last draw kept, -1 if none was.
    """
    last = -1
    while len(candidates) and len(kept) < wanted:
        some, candidates = candidates[: wanted - len(kept)], candidates[wanted - len(kept) :]
        holes = drawn.cells[some, : quota.holes]
        names = identities(quota.size, holes, drawn.starts[some], drawn.goals[some])
        for index, name in zip(some.tolist(), names, strict=True):
            if name not in seen:
                seen.add(name)
                last = int(drawn.number[index])
                problem = problem_of(drawn.boards, index, name)
                solution = solution_of(drawn.boards, drawn.answers, index)
                kept.append(Instance.model_construct(problem=problem, solution=solution))
    return last
