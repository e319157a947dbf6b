"""A plain rule that designs configs: the teacher of the tiny policy's engineer task.

It follows the guideline: most data where about half of the answers are valid, more waits and holes where plans are mostly
valid. Where the context says how boards that need a wait fare, waits rise until most of those are valid. Every decision
follows from the numbers of one map size as they are shown, whole percents and two digits, and its rationale cites them.
"""

from math import floor

from engineer.context import ConfigSpace, DesignContext
from envgen.breakdown import SizeBreakdown
from envgen.config import EnvConfig, SizeConfig

WEIGHTS = ((10, 1), (30, 2), (70, 3), (90, 2), (101, 1))
"""(percent valid, weight): the weight of a map size whose valid rate is below the first, and not below the one before."""
WAIT_STEPS = 4
"""Wait ratios are multiples of 1/4."""
HOLE_STEPS = 10
"""Hole ratios are multiples of 1/10."""
READY, UNREADY = 30, 10
"""Percent valid from which waits rise, and below which they fall."""
WAITS_FAIL, WAITS_SOLVED = 50, 75
"""Of boards that need a wait, the percent valid below which waits rise by two steps, and from which they stay."""
SOLVED, UNSOLVED = 85, 20
"""Percent valid from which holes rise, and below which they fall."""


def teach(context: DesignContext) -> tuple[EnvConfig, str]:
    """The next config by rule, and a rationale that names each map size, its rates, and what changes."""
    parts, current = context.current.breakdown.sizes, context.current.config
    weights = {size: _weight(parts[size].valid_percent) for size in context.space.map_sizes}
    total = sum(weights.values())
    sizes, clauses = {}, []
    for size in context.space.map_sizes:
        old = current.sizes.get(size) or SizeConfig(data_ratio=0, hole_ratio=context.space.min_hole_ratio, wait_ratio=0)
        waits = min(max(_steps(old.wait_ratio, WAIT_STEPS) + _wait_steps(parts[size]), 0), WAIT_STEPS) / WAIT_STEPS
        holes = _holes(old.hole_ratio, parts[size].valid_percent, context.space)
        sizes[size] = SizeConfig(data_ratio=weights[size] / total, hole_ratio=holes, wait_ratio=waits)
        clauses.append(f"{size}x{size} {_rates(parts[size])}: {_edits(old, sizes[size])}.")
    return EnvConfig(sizes=sizes), " ".join(clauses)


def _weight(percent: int) -> int:
    return next(weight for below, weight in WEIGHTS if percent < below)


def _steps(ratio: float, steps: int) -> int:
    """A ratio, as it is shown, in whole steps of 1/steps."""
    return floor(round(ratio, 2) * steps + 0.5)


def _wait_steps(part: SizeBreakdown) -> int:
    """Steps by which the wait ratio moves."""
    if part.valid_percent < READY:
        return -1 if part.valid_percent < UNREADY else 0
    waiting = _waiting(part)
    if waiting is None:
        return 1
    return 2 if waiting < WAITS_FAIL else 1 if waiting < WAITS_SOLVED else 0


def _waiting(part: SizeBreakdown) -> int | None:
    """Percent valid where a wait is needed, if the context says it: it does so only beside that of the other boards."""
    return None if part.moving_percent is None else part.waiting_percent


def _holes(old: float, percent: int, space: ConfigSpace) -> float:
    step = 1 if percent >= SOLVED else -1 if percent < UNSOLVED else 0
    return min(max((_steps(old, HOLE_STEPS) + step) / HOLE_STEPS, space.min_hole_ratio), space.max_hole_ratio)


def _rates(part: SizeBreakdown) -> str:
    waiting = _waiting(part)
    return f"{part.valid_percent}% valid" + ("" if waiting is None else f", waits {waiting}%")


def _edits(old: SizeConfig, new: SizeConfig) -> str:
    """What changes, in the two digits that are shown."""
    edits = []
    for knob, more, less in (
        ("data_ratio", "more data", "less data"),
        ("wait_ratio", "more waits", "fewer waits"),
        ("hole_ratio", "more holes", "fewer holes"),
    ):
        before, after = round(getattr(old, knob), 2), round(getattr(new, knob), 2)
        edits += [more] if after > before else [less] if after < before else []
    return ", ".join(edits) or "as it is"
