"""`levels`: each stratum climbs while it is mastered and steps down while it is out of reach."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions
from engineer.engineers.shares import current_parts, raw_config, valid_rates
from engineer.proposal import Proposal
from engineer.words import named
from envgen.config import SHARE, Part
from envgen.space import Space, Stratum

DIGITS = 6
"""Sums of steps are rounded to so many digits, so that 0.2 + 0.1 is a level and not a little more."""


class LevelsOptions(EngineerOptions):
    """When a stratum moves by a level, and what a level is."""

    up: float = Field(default=0.70, gt=0, le=1)
    """Above this valid rate a stratum gets harder; above 0 to 1, default 0.70."""
    down: float = Field(default=0.30, ge=0, lt=1)
    """Below this valid rate a stratum gets easier; 0 to below 1, default 0.30."""
    steps: dict[str, Annotated[float, Field(gt=0)]] = {}
    """Knob -> one level of it; above 0, and by default the step that the family gives each knob."""
    move: float = Field(default=0.5, gt=0, le=1)
    """Part of its share that a stratum at its last level gives to its neighbour; above 0 to 1, default
    0.5."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.down >= self.up:
            raise ValueError(f"down {self.down} must be below up {self.up}")
        return self


def check(options: LevelsOptions, space: Space, stages: int) -> None:
    """ValueError if a knob is none of the space."""
    known = [knob.name for knob in space.knobs]
    for name in options.steps:
        if name not in known:
            raise ValueError(f"steps.{name}: there is no such knob; known are {', '.join(known)}")


def levelled(
    parts: dict[str, Part], rates: dict[str, float], space: Space, options: LevelsOptions
) -> dict[str, Part]:
    """The parts a level harder where the valid rate is above `up`, a level easier where it is below `down`.

    One level is a step more of each knob, within its range. A stratum whose knobs are all at their end gives
    the part `move` of its share to the next (harder) or the one before (easier) in the order of the space;
    the last and the first keep theirs. All strata move at once, from the shares they have now. Levels that a
    trainer raises and lowers by success are those of reasoning-gym
    (`CurriculumExperiment.update_difficulty`); the thresholds and what a level is here are ours.
    """
    order = list(parts)
    shares = {name: part[SHARE] for name, part in parts.items()}
    knobs = {name: part.knobs for name, part in parts.items()}
    for index, (name, old) in enumerate(parts.items()):
        direction = (rates[name] > options.up) - (rates[name] < options.down) if name in rates else 0
        if direction:
            knobs[name] = _stepped(old, direction, space[name], options)
        if direction and knobs[name] == old.knobs and 0 <= index + direction < len(order):
            given = options.move * old[SHARE]
            shares[name] -= given
            shares[order[index + direction]] += given
    total = sum(shares.values())
    return {
        name: Part.model_validate({SHARE: min(shares[name] / total, 1.0), **knobs[name]}) for name in parts
    }


def _stepped(old: Part, direction: int, stratum: Stratum, options: LevelsOptions) -> dict[str, float]:
    steps = {knob.name: options.steps.get(knob.name, knob.step) for knob in stratum.knobs}
    return {
        knob.name: knob.clamped(round(old[knob.name] + direction * steps[knob.name], DIGITS))
        for knob in stratum.knobs
    }


def _propose(context: DesignContext, options: LevelsOptions, brief: Brief) -> Proposal:
    """Each knob a step harder where a stratum is mastered, easier where it is out of reach."""
    space, rates = context.space, valid_rates(context, context.current)
    harder = named(space, [name for name, rate in rates.items() if rate > options.up])
    easier = named(space, [name for name, rate in rates.items() if rate < options.down])
    parts = levelled(current_parts(context), rates, space, options)
    reason = f"Harder: {harder or 'none'}; easier: {easier or 'none'}."
    return brief.proposal(context, raw_config(space, parts), reason)


LEVELS = Engineer(_propose, LevelsOptions, check=check)
