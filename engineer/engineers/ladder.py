"""Rules that move along the order of the strata: `window` and `levels`."""

from typing import Self

from pydantic import Field, model_validator

from engineer.context import DesignContext
from engineer.engineers.guards import Redesign, RuleOptions, current_parts, rule
from envgen.config import SHARE, Part
from envgen.space import Space, plural


class WindowOptions(RuleOptions):
    """When the window climbs, and how wide it is."""

    up: float = Field(default=0.9, gt=0, le=1)
    """Valid rate of the hardest stratum at which the next one joins; above 0 to 1, default 0.9."""
    width: int = Field(default=4, ge=1)
    """Strata in the window at most; 1 or more, default 4."""


def _window(context: DesignContext, options: WindowOptions, rates: dict[str, float]) -> Redesign:
    """Equal shares in a window of strata that climbs as its hardest is mastered (RLVE).

    As in RLVE the next stratum joins while the rate of the hardest one is at least `up`, and the easiest ones
    beyond `width` leave; the window never goes back. RLVE counts levels within an environment, by training
    answers; here the strata are the levels, and validation answers count, so that several may join at once.
    Strata with the format alarm are passed over.
    """
    names, low, high = context.space.names, context.state.get("low", 0), context.state.get("high", 0)
    while high + 1 < len(names):
        inside = [rates[name] for name in names[low : high + 1] if name in rates]
        if not inside or inside[-1] < options.up:
            break
        high += 1
    low = max(low, high - options.width + 1)
    shares = {name: float(low <= place <= high) for place, name in enumerate(names)}
    reason = f"Equal data to the {plural(context.space.noun)} of the window"
    return Redesign(shares, reason, state={"low": low, "high": high})


WINDOW = rule(_window, WindowOptions)


class LevelsOptions(RuleOptions):
    """When a stratum moves by a level."""

    up: float = Field(default=0.70, gt=0, le=1)
    """Above this valid rate a stratum gets harder; above 0 to 1, default 0.70."""
    down: float = Field(default=0.30, ge=0, lt=1)
    """Below this valid rate a stratum gets easier; 0 to below 1, default 0.30."""
    move: float = Field(default=0.5, gt=0, le=1)
    """Part of its share that a stratum at its last level gives away; above 0 to 1, default 0.5."""

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
            knobs[name] = {  # rounded, so that 0.2 + 0.1 is 0.3, which is a level
                knob.name: knob.clamped(round(old[knob.name] + direction * knob.step, 6))
                for knob in space[name].knobs
            }
        if direction and knobs[name] == old.knobs and 0 <= index + direction < len(order):
            moved = options.move * old[SHARE]
            shares[name] -= moved
            shares[order[index + direction]] += moved
    return {name: Part.model_validate({SHARE: min(shares[name], 1.0), **knobs[name]}) for name in parts}


def _levels(context: DesignContext, options: LevelsOptions, rates: dict[str, float]) -> Redesign:
    """Each knob a step harder where a stratum is mastered, easier where it is out of reach."""
    space = context.space
    harder = space.named([name for name, rate in rates.items() if rate > options.up])
    easier = space.named([name for name, rate in rates.items() if rate < options.down])
    parts = levelled(current_parts(context), rates, space, options)
    shares = {name: part[SHARE] for name, part in parts.items()}
    return Redesign(shares, f"Harder: {harder or 'none'}; easier: {easier or 'none'}.", parts)


LEVELS = rule(_levels, LevelsOptions)
