"""Rules that weigh each stratum by how much its answers teach: `frontier`, `learnability` and `gaussian` by
valid rates, `bandit` by training advantages. `window` and `levels` move along the order of the strata."""

import math
from typing import Self

from pydantic import Field, model_validator

from engineer.context import DesignContext
from engineer.engineers.guards import Redesign, Rule
from envgen.config import SHARE
from envgen.space import plural


class Frontier(Rule):
    """Data to the strata nearest 50 % valid; solved ones are rehearsed.

    The rule follows what arXiv 2606.17682 says of good redesigns; its numbers are ours.
    """

    low: float = Field(default=0.05, ge=0, lt=0.5)
    """A stratum below this valid rate in 2 / low answers is cut to the floor; 0 to 0.5, default 0.05."""
    high: float = Field(default=0.95, gt=0.5, le=1)
    """A stratum above this valid rate is solved and only rehearsed; 0.5 to 1, default 0.95."""
    rehearse: float = Field(default=0.05, ge=0, le=0.1)
    """Share of a solved stratum, so that it is not forgotten; 0 to 0.1, default 0.05."""
    step: float = Field(default=0.5, gt=0, le=1)
    """How far the other shares move towards their target in one stage; above 0 to 1, default 0.5."""

    def _redesign(self, context: DesignContext, rates: dict[str, float]) -> Redesign:
        old = {name: part[SHARE] for name, part in context.current_parts().items()}
        noun, counts = context.space.noun, context.current.breakdown.strata
        few = [name for name in rates.keys() & counts.keys() if counts[name].n * self.low < 2]
        if shares := self.shares(old, rates | {name: max(rates[name], self.low) for name in few}):
            return Redesign(shares, f"Data to the {plural(noun)} nearest 50 % valid")
        return Redesign(old, f"No {noun} is within reach and unsolved; shares stay")

    def shares(self, old: dict[str, float], rates: dict[str, float]) -> dict[str, float] | None:
        """Return new shares of the strata in `rates`, which sum to 1, from old ones and valid rates p; None
        if no stratum gives a signal.

        target_s = p_s (1 - p_s) / sum of the same over the strata with low <= p <= high: the variance of a
        0/1 reward, which is largest at 50 % valid, where R-Zero (arXiv 2508.05004) rewards a proposer most.
        These strata divide what k solved ones (p > high) leave: share_s = (1 - k rehearse) ((1 - step) old_s
        + step target_s) with old shares scaled to sum to 1 over them. Solved strata get `rehearse`, together
        at most half of the budget; a stratum with p < low gets nothing: the floor keeps it in training.
        """
        signal = {name: rate * (1 - rate) for name, rate in rates.items() if self.low <= rate <= self.high}
        whole = sum(signal.values())
        if whole <= 0:
            return None
        solved = [name for name, rate in rates.items() if rate > self.high]
        had = sum(old[name] for name in signal)
        rehearse = min(self.rehearse, 0.5 / len(solved)) if solved else 0.0
        budget = 1 - rehearse * len(solved)
        shares = dict.fromkeys(rates, 0.0) | dict.fromkeys(solved, rehearse)
        for name, variance in signal.items():
            target = variance / whole
            before = old[name] / had if had > 0 else target
            shares[name] = budget * ((1 - self.step) * before + self.step * target)
        return shares


class Learnability(Rule):
    """Data by the share of groups that hold right and wrong answers.

    Only such a group has a training signal: weight 1 - p^n - (1 - p)^n for groups of n answers, 8 where the
    context does not say (marin#8765).
    """

    def _redesign(self, context: DesignContext, rates: dict[str, float]) -> Redesign:
        size = group if isinstance(group := context.training.get("group_size"), int) else 8
        weights = {name: 1 - rate**size - (1 - rate) ** size for name, rate in rates.items()}
        return Redesign(weights, f"Data by the chance of right and wrong answers among {size}")


class Gaussian(Rule):
    """Data by a normal density over valid rates, whose mean falls over the stages (Nemotron 3 Nano).

    The schedule comes from arXiv 2512.20848, section 3.2.2, which has no numbers; the defaults are ours.
    """

    start: float = Field(default=0.8, ge=0, le=1)
    """Target valid rate of stage 1; 0 to 1, default 0.8."""
    end: float = Field(default=0.2, ge=0, le=1)
    """Target valid rate of the last stage; 0 to 1, default 0.2."""
    width: float = Field(default=0.2, ge=0.01, le=10)
    """Standard deviation of the normal density; 0.01 to 10, default 0.2."""

    def _redesign(self, context: DesignContext, rates: dict[str, float]) -> Redesign:
        progress = min(context.current.stage / max(context.stages - 2, 1), 1.0)
        mean = self.start + progress * (self.end - self.start)
        exponents = {name: -(((rate - mean) / self.width) ** 2) / 2 for name, rate in rates.items()}
        reason = f"Data to the {plural(context.space.noun)} nearest {100 * mean:.0f} % valid"
        return Redesign(softmax_shares(exponents, 1.0), reason)


class Bandit(Rule):
    """Data by a moving average of the mean absolute advantage in training (SEC).

    TD(0) without a successor: Q_s <- Q_s + learning_rate (r_s - Q_s), where r_s is the mean absolute
    advantage of the stage's training, and without training the expected one of scaled groups at the valid
    rate p, 2 sqrt(p (1 - p)). A stratum with the format alarm keeps its value. SEC updates at each training
    step; here a stage is one step, since it has one config. The defaults are ours.
    """

    learning_rate: float = Field(default=0.5, gt=0, le=1)
    """Weight of the last stage in a value; above 0 to 1, default 0.5."""
    temperature: float = Field(default=0.5, ge=0.01, le=100)
    """Temperature of the softmax: near 0 the best stratum takes all; 0.01 to 100, default 0.5."""

    def _redesign(self, context: DesignContext, rates: dict[str, float]) -> Redesign:
        remembered, advantages = context.state.get("values", {}), context.current.advantage
        values = {name: float(remembered.get(name, 0.0)) for name in context.space.names}
        for name, rate in rates.items():
            advantage = advantages.get(name, 2 * math.sqrt(rate * (1 - rate)))
            values[name] += self.learning_rate * (advantage - values[name])
        reason = f"Data by the mean absolute advantage of each {context.space.noun}"
        return Redesign(softmax_shares(values, self.temperature), reason, state={"values": values})


def softmax_shares(values: dict[str, float], temperature: float) -> dict[str, float]:
    """Return exp(Q_s / temperature) / sum over all strata."""
    top = max(values.values(), default=0.0)
    weights = {name: math.exp((value - top) / temperature) for name, value in values.items()}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


class Window(Rule):
    """Equal shares in a window of strata that climbs as its hardest is mastered (RLVE).

    The next stratum joins while the rate of the hardest one is at least `up`, and the easiest ones beyond
    `width` leave; the window never goes back. RLVE counts training answers, here validation answers count, so
    that several may join at once. Strata with the format alarm are passed over.
    """

    up: float = Field(default=0.9, gt=0, le=1)
    """Valid rate of the hardest stratum at which the next one joins; above 0 to 1, default 0.9."""
    width: int = Field(default=4, ge=1)
    """Strata in the window at most; 1 or more, default 4."""

    def _redesign(self, context: DesignContext, rates: dict[str, float]) -> Redesign:
        names, low, high = context.space.names, context.state.get("low", 0), context.state.get("high", 0)
        while high + 1 < len(names):
            inside = [rates[name] for name in names[low : high + 1] if name in rates]
            if not inside or inside[-1] < self.up:
                break
            high += 1
        low = max(low, high - self.width + 1)
        shares = {name: float(low <= place <= high) for place, name in enumerate(names)}
        reason = f"Equal data to the {plural(context.space.noun)} of the window"
        return Redesign(shares, reason, state={"low": low, "high": high})


class Levels(Rule):
    """Each knob a step harder where a stratum is mastered, easier where it is out of reach.

    A stratum whose knobs are all at their end gives the part `move` of its share to the next (harder) or the
    one before (easier) in the order of the space, all at once; the last and the first keep theirs. After
    reasoning-gym's `CurriculumExperiment.update_difficulty`; thresholds and levels are ours.
    """

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

    def _redesign(self, context: DesignContext, rates: dict[str, float]) -> Redesign:
        space, names, old = context.space, context.space.names, context.current_parts()
        shares = {name: part[SHARE] for name, part in old.items()}
        knobs = dict[str, dict[str, float]]()
        steps = {name: (rate > self.up) - (rate < self.down) for name, rate in rates.items()}
        for name, step in steps.items():
            if not step:
                continue
            knobs[name] = {  # rounded, so that 0.2 + 0.1 is 0.3, which is a level
                knob.name: knob.clamped(round(old[name][knob.name] + step * knob.step, 6))
                for knob in space[name].knobs
            }
            receiver = names.index(name) + step
            if knobs[name] == old[name].knobs and 0 <= receiver < len(names):
                shares[name] -= self.move * old[name][SHARE]
                shares[names[receiver]] += self.move * old[name][SHARE]
        harder, easier = (space.named([name for name in steps if steps[name] == way]) for way in (1, -1))
        return Redesign(shares, f"Harder: {harder or 'none'}; easier: {easier or 'none'}.", knobs)
