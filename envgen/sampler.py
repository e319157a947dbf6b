"""Draw instances of an environment config with exact counts per map size and wait class.

Which distribution: holes are uniform among all placements of floor(hole_ratio * size^2) holes, starts uniform among
ordered sets of free cells, goals likewise with no agent's goal on its own start; unsolvable boards and boards whose
canonical identity was already drawn, or is held out, are thrown away; the rest is kept until both wait classes of the
map size are full. Draws come in shards of fixed size, each seeded by (seed, stage, purpose, map size, agents, shard)
and consumed in order, so the result does not depend on the number of workers.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import ceil, floor
from multiprocessing import get_context

from pydantic import BaseModel, ConfigDict, Field

from envgen.config import EnvConfig
from envgen.errors import ConfigError, SamplingError
from envgen.grid import Grid
from envgen.problem import MAX_AGENTS, Agent, Cell, Instance, Problem, canonical_identity
from envgen.seeds import generator
from envgen.solver import solve_on_grid

SHARD_DRAWS = 256
MIN_AGENTS = 2
FRUITLESS_DRAWS = 20_000
"""A class is given up after this many draws in a row that added nothing to it."""


class SizeReport(BaseModel):
    """What was asked and what was achieved for one map size."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    instances: int = Field(ge=0)
    wait_instances: int = Field(ge=0)
    holes: int = Field(ge=0)
    """Holes per board."""
    requested_wait_ratio: float
    achieved_wait_ratio: float
    draws: int = Field(ge=0)
    """Boards drawn until both wait classes were full."""


class SamplingReport(BaseModel):
    """What a data set asked for and what it got, per map size."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    sizes: dict[int, SizeReport]


class Quota(BaseModel):
    """How many instances of one map size to draw, and of which kind."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    size: int
    agents: int
    hole_ratio: float
    without_wait: int
    with_wait: int

    @property
    def holes(self) -> int:
        """Holes per board, rounded down."""
        return int(self.hole_ratio * self.size * self.size + 1e-9)


def quotas(config: EnvConfig, count: int, agents: int) -> list[Quota]:
    """The quota of each map size; raises ConfigError or SamplingError for requests that no board can meet."""
    if not MIN_AGENTS <= agents <= MAX_AGENTS:
        raise ConfigError(f"agents: {agents} agents asked for; MAPF-FrozenLake takes {MIN_AGENTS} to {MAX_AGENTS}")
    if count < 1:
        raise ConfigError(f"count: {count} instances asked for; ask for at least 1")
    found = []
    for size, total in config.counts(count).items():
        wanted = config.sizes[size]
        with_wait = int(wanted.wait_ratio * total + 0.5)
        quota = Quota(size=size, agents=agents, hole_ratio=wanted.hole_ratio, without_wait=total - with_wait, with_wait=with_wait)
        free = size * size - quota.holes
        if total and free < agents + 1:
            most = max(0.0, (size * size - agents - 1) / (size * size))
            raise SamplingError(
                f"map size {size}: hole_ratio {wanted.hole_ratio:g} leaves {free} free cells for {agents} agents, who need {agents + 1} to move; "
                f"use hole_ratio at most {most:.2f}, fewer agents or a larger map"
            )
        found.append(quota)
    return found


def sample(
    config: EnvConfig,
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

    `held_out` holds canonical identities that must not appear. `workers` processes share the draws; the result is the
    same for any number. Raises SamplingError when a class holds too few distinct boards.
    """
    instances: list[Instance] = []
    reports = {}
    with _pool(workers) as pool:
        for quota in quotas(config, count, agents):
            kept, draws = _fill(quota, partial(draw_shard, quota, seed, stage, purpose), held_out, pool, workers)
            if len(kept[False]) < quota.without_wait or len(kept[True]) < quota.with_wait:
                raise SamplingError(_shortage(quota, kept, draws))
            drawn = kept[False] + kept[True]
            instances += drawn
            reports[quota.size] = SizeReport(
                instances=len(drawn),
                wait_instances=len(kept[True]),
                holes=quota.holes,
                requested_wait_ratio=config.sizes[quota.size].wait_ratio,
                achieved_wait_ratio=len(kept[True]) / len(drawn) if drawn else 0.0,
                draws=draws,
            )
            if progress and drawn:
                progress(f"{quota.size}x{quota.size}: {len(drawn)} instances, {len(kept[True])} need a wait, {draws} boards drawn")
    return instances, SamplingReport(sizes=reports)


def attainable(
    config: EnvConfig, count: int, *, agents: int = 2, seed: int, stage: int = 0, held_out: frozenset[str] = frozenset(), workers: int = 1
) -> tuple[EnvConfig, list[str]]:
    """The config nearest to `config` of which `sample` can draw `count` instances with the same arguments, and what was changed.

    A map size that is short keeps the boards it has (its wait ratio moves to theirs); its missing share goes to the
    largest map size that is not short. Raises SamplingError if every size is short.
    """
    notes: list[str] = []
    short: set[int] = set()
    with _pool(workers) as pool:
        while True:
            for quota in quotas(config, count, agents):
                kept, _ = _fill(quota, partial(draw_shard, quota, seed, stage, "train"), held_out, pool, workers)
                found = len(kept[False]) + len(kept[True])
                if found < quota.without_wait + quota.with_wait:
                    short.add(quota.size)
                    config, note = _shrink(config, quota, found / count, len(kept[True]) / found if found else 0.0, short)
                    notes.append(note)
                    break
            else:
                return config, notes


def _shrink(config: EnvConfig, quota: Quota, share: float, wait_ratio: float, short: set[int]) -> tuple[EnvConfig, str]:
    """Give a short size the share that it can fill, and the rest to the largest size that is not short."""
    takers = [size for size in config.sizes if size not in short]
    if not takers:
        raise SamplingError("every map size holds too few distinct boards; ask for fewer instances, or raise hole_ratio or lower wait_ratio")
    taker, old = max(takers), config.sizes[quota.size]
    moved = old.data_ratio - share
    sizes = dict(config.sizes)
    sizes[quota.size] = old.model_copy(update={"data_ratio": share, "wait_ratio": wait_ratio})
    sizes[taker] = sizes[taker].model_copy(update={"data_ratio": sizes[taker].data_ratio + moved})
    note = (
        f"map size {quota.size} has too few distinct boards: data_ratio {old.data_ratio:g} -> {share:g}, wait_ratio {old.wait_ratio:g} -> {wait_ratio:.2g}; "
        f"{moved:.3g} of the data moved to map size {taker}"
    )
    return EnvConfig(sizes=sizes), note


def _pool(workers: int) -> AbstractContextManager[Executor | None]:
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn")) if workers > 1 else nullcontext()


def draw_shard(quota: Quota, seed: int, stage: int, purpose: str, shard: int) -> list[Instance]:
    """The solvable boards among one shard of draws, in order, solved and labelled."""
    rng = generator(seed, stage, purpose, quota.size, quota.agents, shard)
    cells = quota.size * quota.size
    orders = rng.random((SHARD_DRAWS, cells)).argsort(axis=1).tolist()
    goals = rng.random((SHARD_DRAWS, cells - quota.holes)).argsort(axis=1)[:, : quota.agents].tolist()
    found = []
    for order, picks in zip(orders, goals, strict=True):
        holes = sorted(divmod(cell, quota.size) for cell in order[: quota.holes])
        free = [divmod(cell, quota.size) for cell in order[quota.holes :]]
        pairs = [(free[i], free[pick]) for i, pick in enumerate(picks)]
        if any(start == goal for start, goal in pairs):
            continue
        instance = _solved(quota.size, holes, pairs)
        if instance is not None:
            found.append(instance)
    return found


def _solved(size: int, holes: list[Cell], pairs: list[tuple[Cell, Cell]]) -> Instance | None:
    grid = Grid(size, holes)
    solution = solve_on_grid(grid, [grid.index(start) for start, _ in pairs], [grid.index(goal) for _, goal in pairs])
    if solution is None:
        return None
    problem = Problem(
        id=canonical_identity(size, holes, pairs), size=size, holes=tuple(holes), agents=tuple(Agent(start=start, goal=goal) for start, goal in pairs)
    )
    return Instance(problem=problem, solution=solution)


def _fill(
    quota: Quota, draw: Callable[[int], list[Instance]], held_out: frozenset[str], pool: Executor | None, workers: int
) -> tuple[dict[bool, list[Instance]], int]:
    """Consume shards in order until both wait classes are full, or one is given up; returns what was kept and the number of draws."""
    wanted = {False: quota.without_wait, True: quota.with_wait}
    kept: dict[bool, list[Instance]] = {False: [], True: []}
    seen = set(held_out)
    draws = fruitless = 0
    if not any(wanted.values()):
        return kept, 0
    for boards in _shards(draw, pool, workers):
        draws += SHARD_DRAWS
        fruitless += SHARD_DRAWS
        for instance in boards:
            label = instance.solution.wait_required
            if len(kept[label]) < wanted[label] and instance.problem.id not in seen:
                seen.add(instance.problem.id)
                kept[label].append(instance)
                fruitless = 0
        if fruitless >= FRUITLESS_DRAWS or all(len(kept[label]) == wanted[label] for label in kept):
            break
    return kept, draws


def _shards(draw: Callable[[int], list[Instance]], pool: Executor | None, workers: int) -> Iterator[list[Instance]]:
    """Shards 0, 1, 2, ... in order, drawn ahead by as many as there are workers."""
    shard = 0
    if pool is None:
        while True:
            yield draw(shard)
            shard += 1
    ahead = [pool.submit(draw, i) for i in range(workers)]
    shard = workers
    try:
        while True:
            boards = ahead.pop(0).result()
            ahead.append(pool.submit(draw, shard))
            shard += 1
            yield boards
    finally:
        for future in ahead:
            future.cancel()


def _shortage(quota: Quota, kept: dict[bool, list[Instance]], draws: int) -> str:
    wanted = {False: quota.without_wait, True: quota.with_wait}
    total, short = sum(wanted.values()), [label for label in wanted if len(kept[label]) < wanted[label]]
    found = [f"found {len(kept[label])} of {wanted[label]} distinct boards that need {'a' if label else 'no'} wait" for label in short]
    most = max(n for n in range(total) if (need := int(quota.with_wait / total * n + 0.5)) <= len(kept[True]) and n - need <= len(kept[False]))
    remedy = [f"ask for at most {most} of this size"] if most else []
    if short == [True] and kept[True]:
        remedy.append(f"lower wait_ratio to {floor(100 * len(kept[True]) / total) / 100:g}")
    if short == [False] and kept[False]:
        remedy.append(f"raise wait_ratio to {ceil(100 * (1 - len(kept[False]) / total)) / 100:g}")
    remedy.append("change hole_ratio or the number of agents, or use a larger map")
    return (
        f"map size {quota.size} with {quota.agents} agents and hole_ratio {quota.hole_ratio:g}: {'; '.join(found)} after {draws} draws, "
        f"the last {FRUITLESS_DRAWS} of them without a new one. Try this: {'; or '.join(remedy)}"
    )
