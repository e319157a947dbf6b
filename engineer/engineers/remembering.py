"""Engineers that are rules with a memory: `bandit` and `learnability`."""

import math

from pydantic import Field

from engineer.context import Answered, DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions
from engineer.engineers.rules import proposal_of_shares
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


def _propose_bandit(context: DesignContext, options: BanditOptions, brief: Brief) -> Proposal:
    """Data by a moving average of the mean absolute advantage in training (SEC)."""
    space, remembered = context.space, context.state.get("values", {})
    before = {name: float(remembered.get(name, 0.0)) for name in space.names}
    values = updated_values(before, context.current.advantage, options.learning_rate)
    shares = softmax_shares(values, options.temperature)
    reason = f"Data by the mean absolute advantage of each {space.noun}"
    return proposal_of_shares(context, brief, shares, reason, values=values)


BANDIT = Engineer(_propose_bandit, BanditOptions)


Posterior = dict[str, tuple[float, float]]
"""Stratum -> (alpha, beta) of the Beta distribution of its success rate."""


class LearnabilityOptions(EngineerOptions):
    """How fast earlier answers are forgotten."""

    keep: float = Field(default=0.5, ge=0, le=1)
    """Weight that the evidence of earlier stages keeps each stage; 0 to 1, default 0.5."""
    prior: float = Field(default=1.0, gt=0)
    """alpha and beta of a stratum without evidence; above 0, default 1: any rate is as likely."""


def updated_posterior(
    posterior: Posterior, answered: dict[str, Answered], options: LearnabilityOptions
) -> Posterior:
    """alpha <- keep alpha + (1 - keep) prior + right answers, beta likewise with wrong ones.

    The discounted Beta posterior of MoPPS (arXiv 2507.04632), there of a prompt, here of a stratum. One
    without answers falls back to the prior, and so is tried again.
    """
    updated = {}
    for name, counts in posterior.items():
        right, wrong = answered[name].valid, answered[name].n - answered[name].valid
        remembered = [options.keep * count + (1 - options.keep) * options.prior for count in counts]
        updated[name] = remembered[0] + right, remembered[1] + wrong
    return updated


def expected_learnability(alpha: float, beta: float) -> float:
    """The mean of p (1 - p) for p from Beta(alpha, beta), 0 to 0.25.

    p (1 - p) is the learnability of SFL (arXiv 2408.15099), the variance of a reward of 0 or 1.
    """
    total = alpha + beta
    return alpha * beta / (total * (total + 1))


def _propose_learnability(context: DesignContext, options: LearnabilityOptions, brief: Brief) -> Proposal:
    """Data by p (1 - p) of each stratum in training."""
    space, remembered = context.space, context.state.get("posterior", {})
    none, prior = Answered(n=0, valid=0), (options.prior, options.prior)
    before = {name: tuple(remembered.get(name, prior)) for name in space.names}
    answered = {name: context.current.answered.get(name, none) for name in space.names}
    posterior = updated_posterior(before, answered, options)
    worth = {name: expected_learnability(*counts) for name, counts in posterior.items()}
    total = sum(worth.values())
    shares = {name: value / total for name, value in worth.items()}
    reason = f"Data by p (1 - p) of each {space.noun} in training"
    return proposal_of_shares(context, brief, shares, reason, posterior=posterior)


LEARNABILITY = Engineer(_propose_learnability, LearnabilityOptions)
