"""`bandit`: the Self-Evolving Curriculum (SEC, arXiv 2505.14970) with strata as arms."""

import math

from pydantic import Field

from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions
from engineer.engineers.shares import current_parts, described, raw_config
from engineer.proposal import Proposal


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


def _propose(context: DesignContext, options: BanditOptions, brief: Brief) -> Proposal:
    """Data by a moving average of the mean absolute advantage in training (SEC)."""
    space, remembered = context.space, context.state.get("values", {})
    before = {name: float(remembered.get(name, 0.0)) for name in space.names}
    values = updated_values(before, context.current.advantage, options.learning_rate)
    shares = softmax_shares(values, options.temperature)
    reason = f"Data by the mean absolute advantage of each {space.noun}: {described(space, shares)}."
    raw = raw_config(space, current_parts(context), shares)
    return brief.proposal(context, raw, reason, state={"values": values})


BANDIT = Engineer(_propose, BanditOptions)
