"""`frontier`: the budget goes to the map sizes nearest 50 % valid."""

from pydantic import Field

from engineer.context import DesignContext
from engineer.contract import Brief, Designer, DesignerOptions
from engineer.engineers.shares import current_sizes, described, raw_config, share_out, valid_rates
from engineer.proposal import Proposal


class FrontierOptions(DesignerOptions):
    """Where a map size stops to give a signal, and how fast shares move."""

    low: float = Field(default=0.05, ge=0, lt=0.5)
    """A size below this valid rate gives no signal and is cut; 0 to 0.5, default 0.05."""
    high: float = Field(default=0.95, gt=0.5, le=1)
    """A size above this valid rate is solved and only rehearsed; 0.5 to 1, default 0.95."""
    rehearse: float = Field(default=0.05, ge=0, le=0.1)
    """Share of a solved size, so that it is not forgotten; 0 to 0.1, default 0.05."""
    step: float = Field(default=0.5, gt=0, le=1)
    """How far the other shares move towards their target in one stage; above 0 to 1, default 0.5."""


def frontier_shares(old: dict[int, float], rates: dict[int, float], options: FrontierOptions) -> dict[int, float] | None:
    """New shares from old ones and the valid rates p of the same map sizes; None if no size gives a signal.

    target_s = p_s (1 - p_s) / sum of the same over the sizes with low <= p <= high: the variance of a 0/1 reward, which is
    largest at 50 % valid, where R-Zero (arXiv 2508.05004) rewards a proposer most. These sizes divide what solved sizes
    leave: share_s = (1 - k rehearse) ((1 - step) old_s + step target_s) with old shares scaled to sum to 1 over them and k
    solved sizes. A solved size (p > high) gets `rehearse`, one without any success (p < low) nothing: it is still evaluated
    and comes back when it is within reach. The rule follows what arXiv 2606.17682 says of good redesigns; its numbers are ours.
    """
    signal = {size: rate * (1 - rate) for size, rate in rates.items() if options.low <= rate <= options.high}
    whole = sum(signal.values())
    if whole <= 0:
        return None
    solved = [size for size, rate in rates.items() if rate > options.high]
    had = sum(old[size] for size in signal)
    budget = 1 - options.rehearse * len(solved)
    shares = dict.fromkeys(rates, 0.0) | dict.fromkeys(solved, options.rehearse)
    for size, variance in signal.items():
        target = variance / whole
        before = old[size] / had if had > 0 else target
        shares[size] = budget * ((1 - options.step) * before + options.step * target)
    return shares


def _propose(context: DesignContext, options: FrontierOptions, brief: Brief) -> Proposal:
    rates = valid_rates(context, context.current)
    shares = share_out(context, rates, lambda old: frontier_shares(old, rates, options))
    if shares is None:
        return brief.exactly(context, context.current.config, "No map size is within reach and unsolved; the config is kept.")
    return brief.proposal(context, raw_config(current_sizes(context), shares), f"Data to the map sizes nearest 50 % valid: {described(shares)}.")


FRONTIER = Designer(_propose, FrontierOptions)
