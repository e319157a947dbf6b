"""A plain rule that designs configs: the teacher of the tiny policy's engineer task.

It follows the guideline: edit locally, move data towards sizes near 50 % valid, more waits where plans are valid. Where the context says how
boards that need a wait fare, that decides the waits instead: they rise where such boards lag behind the others, which is where there is most to gain.
"""

from engineer.context import ConfigSpace, DesignContext
from envgen.breakdown import SizeBreakdown
from envgen.config import EnvConfig, SizeConfig

DATA_UNITS = 20
"""Shares are multiples of 1/20."""
LARGEST_STEP = 2
"""A size's share moves by at most this many units a stage, before all shares are scaled to sum to 1 again."""
EASY, HARD, SOLVED = 0.60, 0.25, 0.85
LAGS, LAGS_FAR, UNREADY = 0.25, 0.50, 0.40
"""Points by which boards that need a wait lag behind the others, and the valid rate of those below which waits come too early."""


def teach(context: DesignContext) -> tuple[EnvConfig, str]:
    """The next config by rule, and a rationale in words."""
    space, current = context.space, context.current
    rates = {size: current.breakdown.sizes[size].valid / current.breakdown.sizes[size].n for size in space.map_sizes}
    units = _units(current.config, space)
    moved = _move_units(units, rates)
    sizes = {}
    for size in space.map_sizes:
        old = current.config.sizes.get(size)
        wait, hole = (old.wait_ratio, old.hole_ratio) if old else (0.25, space.min_hole_ratio)
        waits = _waits(wait, _wait_steps(current.breakdown.sizes[size]))
        sizes[size] = SizeConfig(data_ratio=moved[size] / DATA_UNITS, hole_ratio=_holes(hole, rates[size], space), wait_ratio=waits)
    return EnvConfig(sizes=sizes), _rationale(units, moved, rates)


def _units(config: EnvConfig, space: ConfigSpace) -> dict[int, int]:
    exact = {size: config.sizes[size].data_ratio * DATA_UNITS if size in config.sizes else 0.0 for size in space.map_sizes}
    return _round_to_total(exact)


def _move_units(units: dict[int, int], rates: dict[int, float]) -> dict[int, int]:
    signal = {size: 0.1 + 4 * rate * (1 - rate) for size, rate in rates.items()}
    total = sum(signal.values())
    exact = {}
    for size, have in units.items():
        target = signal[size] / total * DATA_UNITS
        exact[size] = min(max(target, have - LARGEST_STEP), have + LARGEST_STEP)
    scale = DATA_UNITS / sum(exact.values())
    return _round_to_total({size: value * scale for size, value in exact.items()})


def _round_to_total(exact: dict[int, float]) -> dict[int, int]:
    units = {size: int(value) for size, value in exact.items()}
    by_remainder = sorted(exact, key=lambda size: (units[size] - exact[size], size))
    for i in range(DATA_UNITS - sum(units.values())):
        units[by_remainder[i % len(by_remainder)]] += 1
    return units


def _wait_steps(part: SizeBreakdown) -> int:
    """Steps of 1/4 by which the wait ratio moves."""
    waiting, moving = part.waiting_rate, part.moving_rate
    if waiting is None or moving is None:
        rate = part.valid / part.n
        return 1 if rate >= EASY else -1 if rate < HARD else 0
    if moving.value < UNREADY:
        return -1
    lag = moving.value - waiting.value
    return 2 if lag >= LAGS_FAR else 1 if lag >= LAGS else 0


def _waits(old: float, steps: int) -> float:
    return min(max(round(old * 4) + steps, 1), 3) / 4


def _holes(old: float, rate: float, space: ConfigSpace) -> float:
    tenths = round(old * 10) + (1 if rate >= SOLVED else 0)
    return min(max(tenths / 10, space.min_hole_ratio), space.max_hole_ratio)


def _rationale(old: dict[int, int], new: dict[int, int], rates: dict[int, float]) -> str:
    most, least = max(new, key=lambda s: (new[s] - old[s], s)), min(new, key=lambda s: (new[s] - old[s], s))
    if new[most] == old[most]:
        return "Keep the shares, they fit the failures."
    return f"More data for {most}x{most}, which is {_level(rates[most])}; less for {least}x{least}, which is {_level(rates[least])}."


def _level(rate: float) -> str:
    if rate >= EASY:
        return "mostly solved"
    return "rarely solved" if rate < HARD else "solved about half of the time"
