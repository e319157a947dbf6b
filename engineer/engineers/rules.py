"""Engineers that are rules: `frontier` and `levels` over valid rates, `bandit` over training advantages."""

import math
from typing import Any, Self

from pydantic import Field, model_validator

from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions
from engineer.proposal import Proposal
from envgen.config import SHARE, Part
from envgen.space import Space, Stratum, plural


def valid_rates(context: DesignContext) -> dict[str, float]:
    """Stratum -> valid rate after the stage; strata of the space that were not evaluated are left out."""
    strata = context.current.breakdown.strata
    parts = {name: strata[name] for name in context.space.names if name in strata}
    return {name: part.valid / part.n for name, part in parts.items() if part.n}


def current_parts(context: DesignContext) -> dict[str, Part]:
    """The current share and knobs of each stratum of the space; one that the config does not name has no
    share."""
    return {name: context.space.part(context.current.config, name) for name in context.space.names}


def raw_config(
    space: Space, parts: dict[str, Part], shares: dict[str, float] | None = None
) -> dict[str, Any]:
    """A raw config of these parts, with other shares if any are given."""
    new = {name: part[SHARE] for name, part in parts.items()} | (shares or {})
    return {space.key: {name: {SHARE: new[name], **part.knobs} for name, part in parts.items()}}


def proposal_of_shares(
    context: DesignContext, brief: Brief, shares: dict[str, float], reason: str, **state: Any
) -> Proposal:
    """The proposal of the current knobs with other shares, which the reason lists: `2 terms 40 %, ...`.

    Strata of the space that `shares` leaves out keep theirs.
    """
    space = context.space
    listed = ", ".join(f"{space.label(name)} {100 * share:.0f} %" for name, share in shares.items())
    raw = raw_config(space, current_parts(context), shares)
    return brief.proposal(context, raw, f"{reason}: {listed}.", state=state)


MOST_REHEARSED = 0.5
"""Of the budget, for all solved strata together."""


class FrontierOptions(EngineerOptions):
    """Where a stratum stops to give a signal, and how fast shares move."""

    low: float = Field(default=0.05, ge=0, lt=0.5)
    """A stratum below this valid rate gives no signal and is cut; 0 to 0.5, default 0.05."""
    high: float = Field(default=0.95, gt=0.5, le=1)
    """A stratum above this valid rate is solved and only rehearsed; 0.5 to 1, default 0.95."""
    rehearse: float = Field(default=0.05, ge=0, le=0.1)
    """Share of a solved stratum, so that it is not forgotten; 0 to 0.1, default 0.05."""
    step: float = Field(default=0.5, gt=0, le=1)
    """How far the other shares move towards their target in one stage; above 0 to 1, default 0.5."""


def frontier_shares(
    old: dict[str, float], rates: dict[str, float], options: FrontierOptions
) -> dict[str, float] | None:
    """New shares from old ones and the valid rates p of the same strata; None if no stratum gives a signal.

    target_s = p_s (1 - p_s) / sum of the same over the strata with low <= p <= high: the variance of a 0/1
    reward, which is largest at 50 % valid, where R-Zero (arXiv 2508.05004) rewards a proposer most. These
    strata divide what solved ones leave: share_s = (1 - k rehearse) ((1 - step) old_s + step target_s) with
    old shares scaled to sum to 1 over them and k solved strata. A solved stratum (p > high) gets `rehearse`,
    or less where many of them would take more than half of the budget; one without any success (p < low)
    nothing: it is still evaluated and comes back when it is within reach.
    The rule follows what arXiv 2606.17682 says of good redesigns; its numbers are ours.
    """
    signal = {name: rate * (1 - rate) for name, rate in rates.items() if options.low <= rate <= options.high}
    whole = sum(signal.values())
    if whole <= 0:
        return None
    solved = [name for name, rate in rates.items() if rate > options.high]
    had = sum(old[name] for name in signal)
    rehearse = min(options.rehearse, MOST_REHEARSED / len(solved)) if solved else 0.0
    budget = 1 - rehearse * len(solved)
    shares = dict.fromkeys(rates, 0.0) | dict.fromkeys(solved, rehearse)
    for name, variance in signal.items():
        target = variance / whole
        before = old[name] / had if had > 0 else target
        shares[name] = budget * ((1 - options.step) * before + options.step * target)
    return shares


def _propose_frontier(context: DesignContext, options: FrontierOptions, brief: Brief) -> Proposal:
    """Data to the strata nearest 50 % valid; solved ones are rehearsed."""
    space, rates = context.space, valid_rates(context)
    old = {name: part[SHARE] for name, part in current_parts(context).items() if name in rates}
    budget = sum(old.values())  # the strata that were not evaluated keep theirs
    scaled = {name: share / budget for name, share in old.items()} if budget > 0 else {}
    shares = frontier_shares(scaled, rates, options) if scaled else None
    if shares is None:
        reason = f"No {space.noun} is within reach and unsolved; the config is kept."
        return brief.exactly(context, context.current.config, reason)
    shares = {name: share * budget for name, share in shares.items()}
    return proposal_of_shares(context, brief, shares, f"Data to the {plural(space.noun)} nearest 50 % valid")


FRONTIER = Engineer(_propose_frontier, FrontierOptions)


class BanditOptions(EngineerOptions):
    """How fast values follow the last stage, and how sharply shares follow the values."""

    learning_rate: float = Field(default=0.5, gt=0, le=1)
    """Weight of the last stage in a value; above 0 to 1, default 0.5."""
    temperature: float = Field(default=0.5, ge=0.01, le=100)
    """Of the softmax: towards 0 the best stratum takes all, large values make shares equal; 0.01 to 100,
    default 0.5."""


def updated_values(
    values: dict[str, float], advantages: dict[str, float], learning_rate: float
) -> dict[str, float]:
    """TD(0) without a successor: Q_s <- Q_s + learning_rate (r_s - Q_s); without training a value stays.

    r_s is the mean absolute advantage over all answers of the stratum in the stage's training, as the trainer
    used it (`advantage_NAME` and `answers_NAME` of the training log). SEC updates at each training step and
    draws each batch anew; here a stage is one step, since a stage has one config. With one reward for right
    answers and scaled groups, r_s is 2 sqrt(p (1 - p)) in expectation: largest at half of the answers right.
    The defaults are ours.
    """
    steps = {name: learning_rate * (advantages[name] - values[name]) for name in values if name in advantages}
    return {name: value + steps[name] if name in steps else value for name, value in values.items()}


def softmax_shares(values: dict[str, float], temperature: float) -> dict[str, float]:
    """share_s = exp(Q_s / temperature) / sum over all strata."""
    top = max(values.values())
    weights = {name: math.exp((value - top) / temperature) for name, value in values.items()}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _propose_bandit(context: DesignContext, options: BanditOptions, brief: Brief) -> Proposal:
    """Data by a moving average of the mean absolute advantage in training (SEC)."""
    space, remembered = context.space, context.state.get("values", {})
    before = {name: float(remembered.get(name, 0.0)) for name in space.names}
    values = updated_values(before, context.current.advantage, options.learning_rate)
    shares = softmax_shares(values, options.temperature)
    reason = f"Data by the mean absolute advantage of each {space.noun}"
    return proposal_of_shares(context, brief, shares, reason, values=values)


BANDIT = Engineer(_propose_bandit, BanditOptions)


DIGITS = 6
"""Digits to which sums of steps are rounded: 0.2 + 0.1 is 0.3, which is a level."""


class LevelsOptions(EngineerOptions):
    """When a stratum moves by a level."""

    up: float = Field(default=0.70, gt=0, le=1)
    """Above this valid rate a stratum gets harder; above 0 to 1, default 0.70."""
    down: float = Field(default=0.30, ge=0, lt=1)
    """Below this valid rate a stratum gets easier; 0 to below 1, default 0.30."""
    move: float = Field(default=0.5, gt=0, le=1)
    """Part of its share that a stratum at its last level gives to its neighbour; above 0 to 1, default
    0.5."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.down >= self.up:
            raise ValueError(f"down {self.down} must be below up {self.up}")
        return self


def levelled(
    parts: dict[str, Part], rates: dict[str, float], space: Space, options: LevelsOptions
) -> dict[str, Part]:
    """The parts a level harder where the valid rate is above `up`, a level easier where it is below `down`.

    One level is a step more of each knob, within its range. A stratum whose knobs are all at their end gives
    the part `move` of its share to the next (harder) or the one before (easier) in the order of the space;
    the last and the first keep theirs. All strata move at once, from the shares they have now. Levels that a
    trainer raises and lowers by success come from reasoning-gym
    (`CurriculumExperiment.update_difficulty`); the thresholds and what a level is here are ours.
    """
    order = list(parts)
    shares = {name: part[SHARE] for name, part in parts.items()}
    knobs = {name: part.knobs for name, part in parts.items()}
    for index, (name, old) in enumerate(parts.items()):
        direction = (rates[name] > options.up) - (rates[name] < options.down) if name in rates else 0
        if direction:
            knobs[name] = _stepped(old, direction, space[name])
        if direction and knobs[name] == old.knobs and 0 <= index + direction < len(order):
            moved = options.move * old[SHARE]
            shares[name] -= moved
            shares[order[index + direction]] += moved
    total = sum(shares.values())
    return {
        name: Part.model_validate({SHARE: min(shares[name] / total, 1.0), **knobs[name]}) for name in parts
    }


def _stepped(old: Part, direction: int, stratum: Stratum) -> dict[str, float]:
    return {
        knob.name: knob.clamped(round(old[knob.name] + direction * knob.step, DIGITS))
        for knob in stratum.knobs
    }


def _propose_levels(context: DesignContext, options: LevelsOptions, brief: Brief) -> Proposal:
    """Each knob a step harder where a stratum is mastered, easier where it is out of reach."""
    space, rates = context.space, valid_rates(context)
    harder = space.named([name for name, rate in rates.items() if rate > options.up])
    easier = space.named([name for name, rate in rates.items() if rate < options.down])
    parts = levelled(current_parts(context), rates, space, options)
    reason = f"Harder: {harder or 'none'}; easier: {easier or 'none'}."
    return brief.proposal(context, raw_config(space, parts), reason)


LEVELS = Engineer(_propose_levels, LevelsOptions)
