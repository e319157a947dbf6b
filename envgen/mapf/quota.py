"""How many boards of a class to draw, and what is said where the class holds too few."""

import logging
from math import ceil, floor

from envgen.errors import ConfigError, SamplingError
from envgen.frozen import Frozen
from envgen.mapf.capacity import Capacity, enumerated_capacity, hole_ratio_that_holds
from envgen.mapf.config import BoardsConfig, SizeConfig
from envgen.mapf.problem import MAX_AGENTS, MIN_AGENTS

_log = logging.getLogger("envwright.sampler")
_NEED = "no wait", "a wait"


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

    @property
    def wanted(self) -> Capacity:
        """Instances of both wait classes."""
        return Capacity(self.without_wait, self.with_wait)

    def __str__(self) -> str:
        return f"map size {self.size} with {self.agents} agents and hole_ratio {self.hole_ratio:g}"


def quotas(config: BoardsConfig, count: int, agents: int) -> list[Quota]:
    """The quota of each map size; raises ConfigError or SamplingError for requests that no board can meet."""
    if not MIN_AGENTS <= agents <= MAX_AGENTS:
        raise ConfigError(
            f"agents: {agents} agents asked for; MAPF-FrozenLake takes {MIN_AGENTS} to {MAX_AGENTS}"
        )
    if count < 1:
        raise ConfigError(f"count: {count} instances asked for; ask for at least 1")
    return [quota_of(size, config.sizes[size], total, agents) for size, total in config.counts(count).items()]


def quota_of(size: int, knobs: SizeConfig, total: int, agents: int) -> Quota:
    """The quota of `total` boards of a map size; SamplingError if there is no room for the agents."""
    with_wait = int(knobs.wait_ratio * total + 0.5)
    quota = Quota(
        size=size,
        agents=agents,
        hole_ratio=knobs.hole_ratio,
        without_wait=total - with_wait,
        with_wait=with_wait,
    )
    cells = size * size
    free = cells - quota.holes
    if total and free < agents + 1:
        most = max(0, ceil(100 * (cells - agents) / cells) - 1) / 100
        raise SamplingError(
            f"map size {size}: hole_ratio {knobs.hole_ratio:g} leaves {free} free cells for {agents} "
            f"agents, who need {agents + 1} to move; "
            f"use hole_ratio at most {most:.2f}, fewer agents or a larger map"
        )
    return quota


def known_capacity(quota: Quota) -> Capacity | None:
    """What an enumerated class holds, with a warning if more than half of it is asked for; None of others."""
    held = enumerated_capacity(quota.size, quota.agents, quota.holes)
    for boards, asked, need in zip(held or (), quota.wanted, _NEED, strict=False):
        if boards >= asked > boards / 2:
            text = "%s holds %d distinct boards that need %s, and %d are asked for: more than half"
            _log.warning(text, quota, boards, need, asked)
    return held


def shortage(quota: Quota, there: str, held: Capacity, where: str) -> str:
    """Says what is short of a class that holds less than its quota, and which requests nearby work.

    `there` and `where` stand around the numbers: `there are`, 4 of 30 distinct boards, `in all`.
    """
    wanted, total = quota.wanted, sum(quota.wanted)
    short = [waits for waits in (False, True) if held[waits] < wanted[waits]]
    found = [
        f"{there} {held[waits]} of {wanted[waits]} distinct boards that need {_NEED[waits]}"
        for waits in short
    ]
    most = max(
        n
        for n in range(total)
        if (waiting := int(quota.with_wait / total * n + 0.5)) <= held.with_wait
        and n - waiting <= held.without_wait
    )
    remedy = [f"ask for at most {most} of this size"] if most else []
    if short == [True] and held.with_wait:
        remedy.append(f"lower wait_ratio to {floor(100 * held.with_wait / total) / 100:g}")
    if short == [False] and held.without_wait:
        remedy.append(f"raise wait_ratio to {ceil(100 * (1 - held.without_wait / total)) / 100:g}")
    for waits in short:
        ratio = hole_ratio_that_holds(quota.size, quota.agents, quota.holes, waits, wanted[waits])
        if ratio is not None:
            remedy.append(f"use hole_ratio {ratio:g}, where there are enough that need {_NEED[waits]}")
    knobs = "" if len(remedy) > 2 else "hole_ratio or "
    remedy.append(f"change {knobs}the number of agents, or use a larger map")
    return f"{quota}: {'; '.join(found)} {where}. Try this: {'; or '.join(remedy)}"
