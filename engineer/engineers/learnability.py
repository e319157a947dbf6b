"""`learnability`: data by p (1 - p) of each stratum, from the answers of training."""

from pydantic import Field

from engineer.context import Answered, DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions
from engineer.engineers.shares import current_parts, described, raw_config
from engineer.proposal import Proposal
from envgen.seeds import generator

Posterior = dict[str, tuple[float, float]]
"""Stratum -> (alpha, beta) of the Beta distribution of its success rate."""


class LearnabilityOptions(EngineerOptions):
    """How fast earlier answers are forgotten, and whether chance takes part."""

    keep: float = Field(default=0.5, ge=0, le=1)
    """Weight that the evidence of earlier stages keeps each stage; 0 to 1, default 0.5."""
    prior: float = Field(default=1.0, gt=0)
    """alpha and beta of a stratum without evidence; above 0, default 1: any rate is as likely."""
    thompson: bool = False
    """Draw each rate from its posterior instead of taking the mean of p (1 - p); default false."""


def updated_posterior(
    posterior: Posterior, answered: dict[str, Answered], options: LearnabilityOptions
) -> Posterior:
    """alpha <- keep alpha + (1 - keep) prior + right answers, beta likewise with wrong ones.

    The discounted Beta posterior of MoPPS (arXiv 2507.04632), there of a prompt, here of a stratum. One
    without answers falls back to the prior, and so is tried again.
    """
    found = {}
    for name, counts in posterior.items():
        right, wrong = answered[name].valid, answered[name].n - answered[name].valid
        kept = [options.keep * count + (1 - options.keep) * options.prior for count in counts]
        found[name] = kept[0] + right, kept[1] + wrong
    return found


def expected_learnability(alpha: float, beta: float) -> float:
    """The mean of p (1 - p) for p from Beta(alpha, beta), 0 to 0.25.

    p (1 - p) is the learnability of SFL (arXiv 2408.15099), the variance of a reward of 0 or 1.
    """
    total = alpha + beta
    return alpha * beta / (total * (total + 1))


def _propose(context: DesignContext, options: LearnabilityOptions, brief: Brief) -> Proposal:
    """Data by p (1 - p) of each stratum in training."""
    space, remembered = context.space, context.state.get("posterior", {})
    none, prior = Answered(n=0, valid=0), (options.prior, options.prior)
    before = {name: tuple(remembered.get(name, prior)) for name in space.names}
    answered = {name: context.current.answered.get(name, none) for name in space.names}
    posterior = updated_posterior(before, answered, options)
    if options.thompson:
        rng = generator(brief.seed, context.current.stage, "learnability")
        rates = {name: rng.beta(*counts) for name, counts in posterior.items()}
        worth = {name: float(rate * (1 - rate)) for name, rate in rates.items()}
    else:
        worth = {name: expected_learnability(*counts) for name, counts in posterior.items()}
    total = sum(worth.values())
    shares = {name: value / total for name, value in worth.items()}
    reason = f"Data by p (1 - p) of each {space.noun} in training: {described(space, shares)}."
    raw = raw_config(space, current_parts(context), shares)
    return brief.proposal(context, raw, reason, state={"posterior": posterior})


LEARNABILITY = Engineer(_propose, LearnabilityOptions)
