"""What the designers that are rules have in common: rates to read, shares to write."""

from collections.abc import Callable
from typing import Any

from engineer.answer import KNOBS
from engineer.context import DesignContext, StageRecord
from envgen.config import SizeConfig


def valid_rates(context: DesignContext, record: StageRecord) -> dict[int, float]:
    """Map size -> valid rate after a stage; sizes of the space that were not evaluated are left out."""
    parts = {size: record.breakdown.sizes.get(size) for size in context.space.map_sizes}
    return {size: part.valid / part.n for size, part in parts.items() if part is not None and part.n}


def current_sizes(context: DesignContext) -> dict[int, SizeConfig]:
    """The current knobs of each map size of the space; a size that the config does not name has no share."""
    absent = SizeConfig(data_ratio=0, hole_ratio=context.space.min_hole_ratio, wait_ratio=0)
    return {size: context.current.config.sizes.get(size, absent) for size in context.space.map_sizes}


def raw_config(sizes: dict[int, SizeConfig], shares: dict[int, float] | None = None) -> dict[str, Any]:
    """A raw config of these sizes, with other shares if any are given."""
    raw = {str(size): {knob: getattr(config, knob) for knob in KNOBS} for size, config in sizes.items()}
    for size, share in (shares or {}).items():
        raw[str(size)]["data_ratio"] = share
    return {"sizes": raw}


def share_out(context: DesignContext, evaluated: dict[int, float], divide: Callable[[dict[int, float]], dict[int, float] | None]) -> dict[int, float] | None:
    """New shares of the evaluated sizes, which divide what they have together; the others keep theirs.

    `divide` gets the sizes' shares of their common budget and returns new ones that sum to 1, or None to leave all as it is.
    """
    shares = {size: config.data_ratio for size, config in current_sizes(context).items() if size in evaluated}
    budget = sum(shares.values())
    if budget <= 0:
        return None
    divided = divide({size: share / budget for size, share in shares.items()})
    return None if divided is None else {size: share * budget for size, share in divided.items()}


def described(shares: dict[int, float]) -> str:
    """Shares in words, as `3x3 40 %, 5x5 60 %`."""
    return ", ".join(f"{size}x{size} {100 * share:.0f} %" for size, share in shares.items())
