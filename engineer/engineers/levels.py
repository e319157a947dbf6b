"""`levels`: each map size climbs while it is mastered and steps down while it is out of reach."""

from typing import Self

from pydantic import Field, model_validator

from engineer.context import ConfigSpace, DesignContext
from engineer.contract import Brief, Designer, DesignerOptions
from engineer.engineers.shares import current_sizes, raw_config, valid_rates
from engineer.proposal import Proposal
from envgen.config import SizeConfig

DIGITS = 6
"""Sums of steps are rounded to so many digits, so that 0.2 + 0.1 is a level and not a little more."""


class LevelsOptions(DesignerOptions):
    """When a map size moves by a level, and what a level is."""

    up: float = Field(default=0.70, gt=0, le=1)
    """Above this valid rate a size gets harder; above 0 to 1, default 0.70."""
    down: float = Field(default=0.30, ge=0, lt=1)
    """Below this valid rate a size gets easier; 0 to below 1, default 0.30."""
    hole_step: float = Field(default=0.1, gt=0, le=0.5)
    """One level of the hole ratio; above 0 to 0.5, default 0.1."""
    wait_step: float = Field(default=0.25, gt=0, le=1)
    """One level of the wait ratio; above 0 to 1, default 0.25."""
    move: float = Field(default=0.5, gt=0, le=1)
    """Part of its share that a size at its last level gives to the neighbouring size; above 0 to 1, default 0.5."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.down >= self.up:
            raise ValueError(f"down {self.down} must be below up {self.up}")
        return self


def levelled(sizes: dict[int, SizeConfig], rates: dict[int, float], space: ConfigSpace, options: LevelsOptions) -> dict[int, SizeConfig]:
    """The sizes a level harder where the valid rate is above `up`, a level easier where it is below `down`.

    One level is `hole_step` more holes and `wait_step` more waits, within the config space. A size whose both ratios are at
    their end gives the part `move` of its share to the next larger (harder) or smaller (easier) size; the largest and the smallest keep
    theirs. All sizes move at once, from the shares they have now. Levels that a trainer
    raises and lowers by success are those of reasoning-gym (`CurriculumExperiment.update_difficulty`); the thresholds and what a
    level is here are ours.
    """
    order = list(sizes)
    shares = {size: config.data_ratio for size, config in sizes.items()}
    moved = dict(sizes)
    for index, (size, old) in enumerate(sizes.items()):
        direction = (rates[size] > options.up) - (rates[size] < options.down) if size in rates else 0
        new = _step(old, direction, space, options)
        moved[size] = new
        if direction and new == old and 0 <= index + direction < len(order):
            given = options.move * old.data_ratio
            shares[size] -= given
            shares[order[index + direction]] += given
    total = sum(shares.values())
    return {size: config.model_copy(update={"data_ratio": min(shares[size] / total, 1.0)}) for size, config in moved.items()}


def _step(old: SizeConfig, direction: int, space: ConfigSpace, options: LevelsOptions) -> SizeConfig:
    if not direction:
        return old
    holes = round(old.hole_ratio + direction * options.hole_step, DIGITS)
    waits = round(old.wait_ratio + direction * options.wait_step, DIGITS)
    return old.model_copy(update={"hole_ratio": min(max(holes, space.min_hole_ratio), space.max_hole_ratio), "wait_ratio": min(max(waits, 0.0), 1.0)})


def _propose(context: DesignContext, options: LevelsOptions, brief: Brief) -> Proposal:
    rates = valid_rates(context, context.current)
    harder = [f"{size}x{size}" for size, rate in rates.items() if rate > options.up]
    easier = [f"{size}x{size}" for size, rate in rates.items() if rate < options.down]
    sizes = levelled(current_sizes(context), rates, context.space, options)
    rationale = f"Harder: {', '.join(harder) or 'none'}; easier: {', '.join(easier) or 'none'}."
    return brief.proposal(context, raw_config(sizes), rationale)


LEVELS = Designer(_propose, LevelsOptions)
