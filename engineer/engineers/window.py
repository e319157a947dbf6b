"""`window`: a window of levels that climbs as its top is mastered (RLVE, arXiv 2511.07317)."""

from pydantic import Field

from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions
from engineer.engineers.shares import current_parts, described, raw_config, valid_rates
from engineer.proposal import Proposal
from engineer.words import plural


class WindowOptions(EngineerOptions):
    """When the window climbs, and how wide it is."""

    up: float = Field(default=0.9, gt=0, le=1)
    """Valid rate of the top level from which on the next one is taken in; above 0 to 1, default 0.9."""
    width: int = Field(default=4, ge=1)
    """Levels that it holds at most; 1 or more, default 4."""


def moved_window(low: int, high: int, rates: list[float | None], options: WindowOptions) -> tuple[int, int]:
    """The window (lowest level, highest level) after a stage; `rates` are the valid rates by level, None
    where none is known.

    As in RLVE it takes in the next level while the rate of its highest one is at least `up`, and lets go of
    the lowest ones beyond `width`; it never goes back. There each environment has levels of its own, and
    rates are those of training; here the strata of the space, in their order, are the levels, and rates are
    those of the validation set, which has all of them, so that several levels may be taken in a stage.
    """
    while high + 1 < len(rates) and (rates[high] or 0.0) >= options.up:
        high += 1
    return max(low, high - options.width + 1), high


def _propose(context: DesignContext, options: WindowOptions, brief: Brief) -> Proposal:
    """Equal shares in a window of strata that climbs as its top is mastered (RLVE)."""
    space, rates = context.space, valid_rates(context, context.current)
    before = context.state.get("low", 0), context.state.get("high", 0)
    low, high = moved_window(*before, [rates.get(name) for name in space.names], options)
    inside = space.names[low : high + 1]
    shares = {name: 1 / len(inside) if name in inside else 0.0 for name in space.names}
    shown = described(space, {name: shares[name] for name in inside})
    reason = f"Equal data to the {plural(space.noun)} of the window: {shown}."
    raw = raw_config(space, current_parts(context), shares)
    return brief.proposal(context, raw, reason, state={"low": low, "high": high})


WINDOW = Engineer(_propose, WindowOptions)
