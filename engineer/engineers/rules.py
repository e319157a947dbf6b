"""Rules that weigh each stratum by how much its answers teach: `frontier`, `learnability` and `gaussian` over
valid rates, `bandit` over training advantages."""

import math

from pydantic import Field

from engineer.context import DesignContext
from engineer.engineers.guards import Redesign, RuleOptions, current_parts, rule
from envgen.config import SHARE
from envgen.space import plural


class FrontierOptions(RuleOptions):
    """Where a stratum stops to give a signal, and how fast shares move."""

    low: float = Field(default=0.05, ge=0, lt=0.5)
    """A stratum below this valid rate gives no signal and is cut to the floor; 0 to 0.5, default 0.05."""
    high: float = Field(default=0.95, gt=0.5, le=1)
    """A stratum above this valid rate is solved and only rehearsed; 0.5 to 1, default 0.95."""
    rehearse: float = Field(default=0.05, ge=0, le=0.1)
    """Share of a solved stratum, so that it is not forgotten; 0 to 0.1, default 0.05."""
    step: float = Field(default=0.5, gt=0, le=1)
    """How far the other shares move towards their target in one stage; above 0 to 1, default 0.5."""


def frontier_shares(
    old: dict[str, float], rates: dict[str, float], options: FrontierOptions
) -> dict[str, float] | None:
    """Return new shares of the strata in `rates`, which sum to 1, from old ones and valid rates p; None if no
    stratum gives a signal.

    target_s = p_s (1 - p_s) / sum of the same over the strata with low <= p <= high: the variance of a 0/1
    reward, which is largest at 50 % valid, where R-Zero (arXiv 2508.05004) rewards a proposer most. These
    strata divide what solved ones leave: share_s = (1 - k rehearse) ((1 - step) old_s + step target_s) with
    old shares scaled to sum to 1 over them and k solved strata. A solved stratum (p > high) gets `rehearse`,
    or less where many of them would take more than half of the budget; a stratum with p < low nothing: the
    floor keeps it in training, and it comes back when it is within reach.
    The rule follows what arXiv 2606.17682 says of good redesigns; its numbers are ours.
    """
    signal = {name: rate * (1 - rate) for name, rate in rates.items() if options.low <= rate <= options.high}
    whole = sum(signal.values())
    if whole <= 0:
        return None
    solved = [name for name, rate in rates.items() if rate > options.high]
    had = sum(old[name] for name in signal)
    rehearse = min(options.rehearse, 0.5 / len(solved)) if solved else 0.0
    budget = 1 - rehearse * len(solved)
    shares = dict.fromkeys(rates, 0.0) | dict.fromkeys(solved, rehearse)
    for name, variance in signal.items():
        target = variance / whole
        before = old[name] / had if had > 0 else target
        shares[name] = budget * ((1 - options.step) * before + options.step * target)
    return shares


def _frontier(context: DesignContext, options: FrontierOptions, rates: dict[str, float]) -> Redesign:
    """Data to the strata nearest 50 % valid; solved ones are rehearsed."""
    old = {name: part[SHARE] for name, part in current_parts(context).items()}
    noun, shares = context.space.noun, frontier_shares(old, rates, options)
    if shares is None:
        return Redesign(old, f"No {noun} is within reach and unsolved; shares stay")
    return Redesign(shares, f"Data to the {plural(noun)} nearest 50 % valid")


FRONTIER = rule(_frontier, FrontierOptions)


def _learnability(context: DesignContext, options: RuleOptions, rates: dict[str, float]) -> Redesign:
    """Data by the share of groups that hold right and wrong answers.

    Only such a group has a training signal: weight 1 - p^n - (1 - p)^n for groups of n answers, 8 where the
    context does not say (marin#8765).
    """
    size = group if isinstance(group := context.training.get("group_size"), int) else 8
    weights = {name: 1 - rate**size - (1 - rate) ** size for name, rate in rates.items()}
    return Redesign(weights, f"Data by the chance of right and wrong answers among {size}")


LEARNABILITY = rule(_learnability, RuleOptions)


class GaussianOptions(RuleOptions):
    """Target valid rate of the first and the last designed stage, and how near a stratum must be to it."""

    start: float = Field(default=0.8, ge=0, le=1)
    """Target valid rate of stage 1; 0 to 1, default 0.8."""
    end: float = Field(default=0.2, ge=0, le=1)
    """Target valid rate of the last stage; 0 to 1, default 0.2."""
    width: float = Field(default=0.2, ge=0.01, le=10)
    """Standard deviation of the normal density; 0.01 to 10, default 0.2."""


def _gaussian(context: DesignContext, options: GaussianOptions, rates: dict[str, float]) -> Redesign:
    """Data by a normal density over valid rates, whose mean falls over the stages (Nemotron 3 Nano).

    The mean lies on a line from `start` to `end`. The schedule comes from arXiv 2512.20848, section 3.2.2,
    which has no numbers; the defaults are ours.
    """
    progress = min(context.current.stage / max(context.stages - 2, 1), 1.0)
    mean = options.start + progress * (options.end - options.start)
    exponents = {name: -(((rate - mean) / options.width) ** 2) / 2 for name, rate in rates.items()}
    reason = f"Data to the {plural(context.space.noun)} nearest {100 * mean:.0f} % valid"
    return Redesign(softmax_shares(exponents, 1.0), reason)


GAUSSIAN = rule(_gaussian, GaussianOptions)


class BanditOptions(RuleOptions):
    """How fast values follow the last stage, and how sharply shares follow the values."""

    learning_rate: float = Field(default=0.5, gt=0, le=1)
    """Weight of the last stage in a value; above 0 to 1, default 0.5."""
    temperature: float = Field(default=0.5, ge=0.01, le=100)
    """Temperature of the softmax: near 0 the best stratum takes all; 0.01 to 100, default 0.5."""


def softmax_shares(values: dict[str, float], temperature: float) -> dict[str, float]:
    """Return exp(Q_s / temperature) / sum over all strata."""
    top = max(values.values(), default=0.0)
    weights = {name: math.exp((value - top) / temperature) for name, value in values.items()}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _bandit(context: DesignContext, options: BanditOptions, rates: dict[str, float]) -> Redesign:
    """Data by a moving average of the mean absolute advantage in training (SEC).

    TD(0) without a successor: Q_s <- Q_s + learning_rate (r_s - Q_s), where r_s is the mean absolute
    advantage of the stage's training, and without training the expected one of scaled groups at the valid
    rate p, 2 sqrt(p (1 - p)). A stratum with the format alarm keeps its value. SEC updates at each training
    step; here a stage is one step, since it has one config. The defaults are ours.
    """
    remembered, advantages = context.state.get("values", {}), context.current.advantage
    values = {name: float(remembered.get(name, 0.0)) for name in context.space.names}
    for name, rate in rates.items():
        advantage = advantages.get(name, 2 * math.sqrt(rate * (1 - rate)))
        values[name] += options.learning_rate * (advantage - values[name])
    reason = f"Data by the mean absolute advantage of each {context.space.noun}"
    return Redesign(softmax_shares(values, options.temperature), reason, state={"values": values})


BANDIT = rule(_bandit, BanditOptions)
