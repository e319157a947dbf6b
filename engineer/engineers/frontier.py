"""`frontier`: the budget goes to the strata nearest 50 % valid."""

from pydantic import Field

from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions
from engineer.engineers.shares import current_parts, described, raw_config, share_out, valid_rates
from engineer.proposal import Proposal
from engineer.words import plural

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


def _propose(context: DesignContext, options: FrontierOptions, brief: Brief) -> Proposal:
    """Data to the strata nearest 50 % valid; solved ones are rehearsed."""
    space, rates = context.space, valid_rates(context, context.current)
    shares = share_out(context, rates, lambda old: frontier_shares(old, rates, options))
    if shares is None:
        reason = f"No {space.noun} is within reach and unsolved; the config is kept."
        return brief.exactly(context, context.current.config, reason)
    reason = f"Data to the {plural(space.noun)} nearest 50 % valid: {described(space, shares)}."
    return brief.proposal(context, raw_config(space, current_parts(context), shares), reason)


FRONTIER = Engineer(_propose, FrontierOptions)
