"""Guards that keep a rule from starving a stratum: smoothed rates, a smallest share, the format alarm."""

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions
from engineer.proposal import Proposal
from envgen.breakdown import format_alarms
from envgen.config import SHARE, Part
from envgen.space import Space


class FloorOptions(EngineerOptions):
    """Smallest share of a stratum."""

    floor: float | None = Field(default=None, ge=0, le=1)
    """Smallest share of a stratum; 0 to 1 / number of strata, default 0.05 / number of strata."""

    def floor_in(self, space: Space) -> float:
        """Return the smallest share of a stratum of the space."""
        return 0.05 / len(space.strata) if self.floor is None else self.floor


class RuleOptions(FloorOptions):
    """Guards against starving a stratum; defaults as in marin#8765, round 4."""

    reversion: float = Field(default=2.0, ge=0)
    """Answers at 50 % valid that are added to each stratum's in each stage; 0 or more, default 2."""
    alarm: bool = True
    """Keep share and knobs of a stratum with the format alarm; default true."""


def check_floor(options: FloorOptions, space: Space, stages: int) -> None:
    """Raise ValueError if the floors of all strata sum to more than 1."""
    count, floor = len(space.strata), options.floor_in(space)
    if floor > 1 / count:
        raise ValueError(f"floor: {floor:g} is too large for {count} strata; use {1 / count:.3g} or less")


def broken_strata(context: DesignContext, options: RuleOptions) -> list[str]:
    """Return the strata of the space that have the format alarm; none without the option."""
    raised = format_alarms(context.space, context.current.breakdown) if options.alarm else {}
    return [name for name in context.space.names if name in raised]


def valid_rates(context: DesignContext, options: RuleOptions) -> dict[str, float]:
    """Return the smoothed valid rate, 0 to 1, of each stratum without the format alarm.

    It is (valid + reversion / 2) / (n + reversion); without an evaluation it comes from the neighbours in the
    order of the space, by linear interpolation, and is 0.5 if no stratum was evaluated.
    """
    broken, mass = broken_strata(context, options), options.reversion
    places = {name: place for place, name in enumerate(context.space.names) if name not in broken}
    parts = {name: context.current.breakdown.strata.get(name) for name in places}
    seen = {places[name]: part for name, part in parts.items() if part and part.n}
    rates = [(part.valid + mass / 2) / (part.n + mass) for part in seen.values()]
    smooth = np.interp(list(places.values()), list(seen) or [0], rates or [0.5])
    return dict(zip(places, smooth.tolist(), strict=True))


def current_parts(context: DesignContext) -> dict[str, Part]:
    """Return the current share and knobs of each stratum; without a part in the config it has no share."""
    return {name: context.space.part(context.current.config, name) for name in context.space.names}


def divided(weights: dict[str, float], budget: float, floor: float) -> dict[str, float]:
    """Return shares of a budget in proportion to weights, at least `floor` each; equal without any weight."""
    total = math.fsum(weights.values())
    equal = 1 / max(len(weights), 1)
    shares = {name: budget * (weight / total if total > 0 else equal) for name, weight in weights.items()}
    low = [name for name, share in shares.items() if share < floor]
    if not low or len(low) == len(shares):
        return shares
    others = {name: weight for name, weight in weights.items() if name not in low}
    return dict.fromkeys(weights, floor) | divided(others, budget - floor * len(low), floor)


def guarded(context: DesignContext, options: RuleOptions, shares: dict[str, float]) -> dict[str, float]:
    """Return the shares of all strata: a stratum with the format alarm keeps its share, the others divide the
    rest in proportion to `shares`, and each gets the floor at least."""
    floor, broken = options.floor_in(context.space), broken_strata(context, options)
    free = {name: shares[name] for name in context.space.names if name not in broken}
    fixed = {name: context.space.part(context.current.config, name)[SHARE] for name in broken}
    budget = math.fsum(max(share, floor) for share in fixed.values())
    budget = min(budget, 1 - floor * len(free)) if free else 1.0
    parts = divided(fixed, budget, floor) | divided(free, 1 - budget, floor)
    return {name: parts[name] for name in context.space.names}


class Redesign(NamedTuple):
    """What a rule decides. Without `parts` the knobs stay, and the reason lists the shares."""

    shares: dict[str, float]
    reason: str
    parts: dict[str, Part] | None = None
    state: dict[str, Any] = {}


def rule(
    redesign: Callable[[DesignContext, Any, dict[str, float]], Redesign], options: type[RuleOptions]
) -> Engineer[Any]:
    """Return the engineer that redesigns by the context, its options and `valid_rates`, with guards."""

    @wraps(redesign)
    def propose(context: DesignContext, options: RuleOptions, brief: Brief) -> Proposal:
        space, made = context.space, redesign(context, options, valid_rates(context, options))
        shares, reason = guarded(context, options, made.shares), made.reason
        if made.parts is None:
            listed = ", ".join(f"{space.label(name)} {100 * share:.0f} %" for name, share in shares.items())
            reason = f"{reason}: {listed}."
        if broken := broken_strata(context, options):
            reason += f" Format, not skill, so that the share is kept: {space.named(broken)}."
        parts = made.parts or current_parts(context)
        raw = {name: {SHARE: shares[name], **part.knobs} for name, part in parts.items()}
        return brief.proposal(context, {space.key: raw}, reason, state=made.state)

    return Engineer(propose, options, check=check_floor)
