"""Draw instances of an environment config with exact counts per map size and wait class.

Which distribution: holes are uniform among all placements of floor(hole_ratio * size^2) holes, starts uniform
among ordered sets of free cells, goals likewise with no agent's goal on its own start; unsolvable boards are
thrown away. So every labelled board of a class (map size, agents, holes, wait or no wait) is equally likely
to be drawn next. Boards whose canonical identity was already drawn, or is held out, are thrown away too: a
data set is a sample without replacement, in which a board that is its own image under a symmetry is rarer, as
it has fewer labelled forms. Draws come in shards of fixed size, each seeded by (seed, stage, purpose, map
size, agents, shard) and consumed in order: which board is the k-th of its class depends on nothing that was
asked before it, and not on the number of workers.
"""

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial
from math import ceil, floor
from multiprocessing import get_context
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import Field

from envgen.errors import ConfigError, SamplingError
from envgen.family import ShortageError
from envgen.frozen import Frozen
from envgen.mapf.capacity import Capacity, enumerated_capacity, hole_ratio_that_holds
from envgen.mapf.config import BoardsConfig, SizeConfig
from envgen.mapf.problem import MAX_AGENTS, MIN_AGENTS, Instance, identities
from envgen.mapf.solver.columns import pack_cells, problem_of, solution_of
from envgen.mapf.solver.solve import solve_boards
from envgen.processes import die_with_parent
from envgen.seeds import generator

if TYPE_CHECKING:
    from envgen.mapf.solver.search import Answers, Boards

_log = logging.getLogger("envwright.sampler")

SHARD_DRAWS = 256
FEWEST_DRAWS, MOST_DRAWS = 32, 4096
"""Draws that are solved together."""
FRUITLESS_DRAWS = 200_000
"""A class is given up after this many draws that added nothing to it, counted in blocks of MOST_DRAWS."""


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


class Quota(Frozen):
    """How many instances of one map size to draw, and of which kind."""

    size: int
    agents: int
    hole_ratio: float
    without_wait: int
    with_wait: int

    @property
    def holes(self) -> int:
        """Holes per board, rounded down."""
        return int(self.hole_ratio * self.size * self.size + 1e-9)


def quotas(config: BoardsConfig, count: int, agents: int) -> list[Quota]:
    """The quota of each map size; raises ConfigError or SamplingError for requests that no board can meet."""
    if not MIN_AGENTS <= agents <= MAX_AGENTS:
        raise ConfigError(
            f"agents: {agents} agents asked for; MAPF-FrozenLake takes {MIN_AGENTS} to {MAX_AGENTS}"
        )
    if count < 1:
        raise ConfigError(f"count: {count} instances asked for; ask for at least 1")
    return [quota_of(size, config.sizes[size], total, agents) for size, total in config.counts(count).items()]


def quota_of(size: int, wanted: SizeConfig, total: int, agents: int) -> Quota:
    """The quota of `total` boards of a map size; SamplingError if there is no room for the agents."""
    with_wait = int(wanted.wait_ratio * total + 0.5)
    quota = Quota(
        size=size,
        agents=agents,
        hole_ratio=wanted.hole_ratio,
        without_wait=total - with_wait,
        with_wait=with_wait,
    )
    free = size * size - quota.holes
    if total and free < agents + 1:
        most = max(0, ceil(100 * (size * size - agents) / (size * size)) - 1) / 100
        raise SamplingError(
            f"map size {size}: hole_ratio {wanted.hole_ratio:g} leaves {free} free cells for {agents} "
            f"agents, who need {agents + 1} to move; "
            f"use hole_ratio at most {most:.2f}, fewer agents or a larger map"
        )
    return quota


def sample(
    config: BoardsConfig,
    count: int,
    *,
    agents: int = 2,
    seed: int,
    stage: int = 0,
    purpose: str = "train",
    held_out: frozenset[str] = frozenset(),
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
) -> tuple[list[Instance], SamplingReport]:
    """Draw `count` distinct instances of `config`, smallest map first, and say what was achieved.

    `held_out` holds canonical identities that must not appear. `workers` processes share the draws; the
    result is the same for any number. Raises ShortageError when a class holds too few distinct boards, and
    logs a warning when more than half of a class is asked for.
    """
    instances: list[Instance] = []
    reports = {}
    todo = quotas(config, count, agents)
    with processes(workers) as pool:
        for quota in todo:
            wait_ratio = config.sizes[quota.size].wait_ratio
            drawn, report = sample_size(
                quota,
                wait_ratio,
                seed=seed,
                stage=stage,
                purpose=purpose,
                held_out=held_out,
                pool=pool,
                workers=workers,
            )
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
    stage: int = 0,
    purpose: str = "train",
    held_out: frozenset[str] = frozenset(),
    pool: Executor | None = None,
    workers: int = 1,
) -> tuple[list[Instance], SizeReport]:
    """The part of `sample` that one map size is.

    What it draws depends on no other map size. `wait_ratio` is what was asked for. ShortageError has what
    there is of a class that holds too little.
    """
    held = _known_capacity(quota)
    kept, draws = _fill(quota, partial(draw_boards, quota, seed, stage, purpose), held_out, pool, workers)
    drawn = kept[False] + kept[True]
    if len(kept[False]) < quota.without_wait or len(kept[True]) < quota.with_wait:
        raise ShortageError(_shortage(quota, kept, draws, held), drawn)
    return drawn, SizeReport(
        instances=len(drawn),
        wait_instances=len(kept[True]),
        holes=quota.holes,
        requested_wait_ratio=wait_ratio,
        achieved_wait_ratio=len(kept[True]) / len(drawn) if drawn else 0.0,
        draws=draws,
    )


def processes(workers: int) -> AbstractContextManager[Executor | None]:
    """Processes that draw; None for one, which is this."""
    if workers < 2:
        return nullcontext()
    return ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=die_with_parent, initargs=(os.getpid(),)
    )


class Drawn(NamedTuple):
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


def draw_boards(quota: Quota, seed: int, stage: int, purpose: str, first: int, count: int) -> Drawn:
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
    return Drawn(
        boards=boards,
        answers=solve_boards(boards),
        cells=order,
        starts=starts,
        goals=goals,
        number=first + np.flatnonzero(moving),
    )


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
    draw: Callable[[int, int], Drawn],
    held_out: frozenset[str],
    pool: Executor | None,
    workers: int,
) -> tuple[dict[bool, list[Instance]], int]:
    """Consume draws in order until both wait classes are full, or given up.

    Returns what was kept and the number of draws that took.
    """
    wanted = {False: quota.without_wait, True: quota.with_wait}
    known = enumerated_capacity(quota.size, quota.agents, quota.holes) if any(wanted.values()) else None
    enough = {label: min(wanted[label], known[label]) if known else wanted[label] for label in wanted}
    kept: dict[bool, list[Instance]] = {False: [], True: []}
    seen = set(held_out)
    drawn = useful = fruitless = 0
    last = -1
    if not any(wanted.values()):
        return kept, 0

    def next_size(first: int) -> int:
        """How many draws to solve next: what is likely to be enough, within a block."""
        if first == 0:
            likely = sum(wanted.values())
        else:
            likely = (
                max(
                    (enough[label] - len(kept[label])) * max(1, drawn) / max(1, len(kept[label]))
                    for label in kept
                )
                / workers
            )
        return min(
            max(FEWEST_DRAWS, int(likely / FEWEST_DRAWS + 1) * FEWEST_DRAWS), MOST_DRAWS - first % MOST_DRAWS
        )

    for batch, size in _batches(draw, next_size, pool, workers):
        solved, waiting = batch.answers.status > 0, batch.answers.waits > 0
        for label in (False, True):
            if len(kept[label]) < wanted[label]:
                last = max(
                    last,
                    _keep_new(
                        batch,
                        np.flatnonzero(solved & (waiting == label)),
                        quota,
                        kept[label],
                        wanted[label],
                        seen,
                    ),
                )
        drawn += size
        if all(len(kept[label]) == enough[label] for label in kept):
            return kept, last + 1
        if drawn % MOST_DRAWS == 0:
            fruitless = fruitless + MOST_DRAWS if len(kept[False]) + len(kept[True]) == useful else 0
            useful = len(kept[False]) + len(kept[True])
            if fruitless >= FRUITLESS_DRAWS:
                break
    return kept, drawn


def _keep_new(
    drawn: Drawn, candidates: np.ndarray, quota: Quota, kept: list[Instance], wanted: int, seen: set[str]
) -> int:
    """Add candidates that were not seen to `kept`, in order, until there are `wanted`.

    Returns the number of the last draw kept, -1 if none was.
    """
    last = -1
    while len(candidates) and len(kept) < wanted:
        some, candidates = candidates[: wanted - len(kept)], candidates[wanted - len(kept) :]
        names = identities(
            quota.size, drawn.cells[some, : quota.holes], drawn.starts[some], drawn.goals[some]
        )
        for index, name in zip(some.tolist(), names, strict=True):
            if name not in seen:
                seen.add(name)
                last = int(drawn.number[index])
                problem = problem_of(drawn.boards, index, name)
                kept.append(
                    Instance.model_construct(
                        problem=problem, solution=solution_of(drawn.boards, drawn.answers, index)
                    )
                )
    return last


def _batches(
    draw: Callable[[int, int], Drawn], next_size: Callable[[int], int], pool: Executor | None, workers: int
) -> Iterator[tuple[Drawn, int]]:
    """Draws 0, 1, 2, ... in order, in batches, drawn ahead by as many as there are workers."""
    first = 0
    ahead = []
    try:
        while True:
            while pool and len(ahead) < workers:
                size = next_size(first)
                ahead.append((pool.submit(draw, first, size), size))
                first += size
            if ahead:
                future, size = ahead.pop(0)
                yield future.result(), size
            else:
                size = next_size(first)
                yield draw(first, size), size
                first += size
    finally:
        for future, _ in ahead:
            future.cancel()


def _known_capacity(quota: Quota) -> Capacity | None:
    """What an enumerable class holds, with a warning if more than half of it is asked for."""
    asked = {False: quota.without_wait, True: quota.with_wait}
    held = enumerated_capacity(quota.size, quota.agents, quota.holes) if any(asked.values()) else None
    for label in asked if held else ():
        if held and held[label] >= asked[label] > held[label] / 2:
            need = "a" if label else "no"
            text = (
                "map size %d with %d agents and hole_ratio %g holds %d distinct boards that need %s wait, "
                "and %d are asked for: more than half"
            )
            _log.warning(text, quota.size, quota.agents, quota.hole_ratio, held[label], need, asked[label])
    return held


def _shortage(quota: Quota, kept: dict[bool, list[Instance]], draws: int, held: Capacity | None) -> str:
    if held and (held.without_wait < quota.without_wait or held.with_wait < quota.with_wait):
        return _refusal(quota, held, "there are", "in all")
    found = Capacity(len(kept[False]), len(kept[True]))
    return _refusal(
        quota, found, "found", f"after {draws} draws, the last {FRUITLESS_DRAWS} of them without a new one"
    )


def _refusal(quota: Quota, held: Capacity, verb: str, where: str) -> str:
    """What is short, and which requests nearby work."""
    wanted = (quota.without_wait, quota.with_wait)
    total, short = sum(wanted), [label for label in (False, True) if held[label] < wanted[label]]
    found = [
        f"{verb} {held[label]} of {wanted[label]} distinct boards that need {'a' if label else 'no'} wait"
        for label in short
    ]
    most = max(
        n
        for n in range(total)
        if (need := int(quota.with_wait / total * n + 0.5)) <= held.with_wait
        and n - need <= held.without_wait
    )
    remedy = [f"ask for at most {most} of this size"] if most else []
    if short == [True] and held.with_wait:
        remedy.append(f"lower wait_ratio to {floor(100 * held.with_wait / total) / 100:g}")
    if short == [False] and held.without_wait:
        remedy.append(f"raise wait_ratio to {ceil(100 * (1 - held.without_wait / total)) / 100:g}")
    for label in short:
        ratio = hole_ratio_that_holds(quota.size, quota.agents, quota.holes, label, wanted[label])
        if ratio is not None:
            remedy.append(
                f"use hole_ratio {ratio:g}, where there are enough that need {'a' if label else 'no'} wait"
            )
    remedy.append(
        "change the number of agents, or use a larger map"
        if len(remedy) > 2
        else "change hole_ratio or the number of agents, or use a larger map"
    )
    return (
        f"map size {quota.size} with {quota.agents} agents and hole_ratio {quota.hole_ratio:g}: "
        f"{'; '.join(found)} {where}. Try this: {'; or '.join(remedy)}"
    )
