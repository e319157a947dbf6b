"""`bandit`: the Self-Evolving Curriculum (SEC, arXiv 2505.14970) with map sizes as arms."""

import math

from pydantic import Field

from engineer.context import DesignContext
from engineer.contract import Brief, Designer, DesignerOptions
from engineer.engineers.shares import current_sizes, described, raw_config
from engineer.proposal import Proposal


class BanditOptions(DesignerOptions):
    """How fast values follow the last stage, and how sharply shares follow the values."""

    learning_rate: float = Field(default=0.5, gt=0, le=1)
    """Weight of the last stage in a value; above 0 to 1, default 0.5."""
    temperature: float = Field(default=0.5, ge=0.01, le=100)
    """Of the softmax: towards 0 the best map size takes all, large values make shares equal; 0.01 to 100, default 0.5."""


def updated_values(values: dict[int, float], advantages: dict[int, float], learning_rate: float) -> dict[int, float]:
    """TD(0) without a successor: Q_s <- Q_s + learning_rate (r_s - Q_s); a map size without training keeps its value.

    r_s is the mean absolute advantage over all answers of the map size in the stage's training, as the trainer used it
    (`advantage_N` and `answers_N` of the training log). SEC updates at each training step and draws each batch anew; here a
    stage is one step, since a stage has one config. With one reward for right answers and scaled groups, r_s is
    2 sqrt(p (1 - p)) in expectation: largest at half of the answers right. The defaults are ours.
    """
    return {size: value + learning_rate * (advantages[size] - value) if size in advantages else value for size, value in values.items()}


def softmax_shares(values: dict[int, float], temperature: float) -> dict[int, float]:
    """share_s = exp(Q_s / temperature) / sum over all sizes."""
    top = max(values.values())
    weights = {size: math.exp((value - top) / temperature) for size, value in values.items()}
    total = sum(weights.values())
    return {size: weight / total for size, weight in weights.items()}


def _propose(context: DesignContext, options: BanditOptions, brief: Brief) -> Proposal:
    remembered = context.state.get("values", {})
    before = {size: float(remembered.get(str(size), 0.0)) for size in context.space.map_sizes}
    values = updated_values(before, context.current.advantage, options.learning_rate)
    shares = softmax_shares(values, options.temperature)
    rationale = f"Data by the mean absolute advantage of each map size: {described(shares)}."
    return brief.proposal(
        context, raw_config(current_sizes(context), shares), rationale, state={"values": {str(size): value for size, value in values.items()}}
    )


BANDIT = Designer(_propose, BanditOptions)
