"""`progress`: Success Induced Task Prioritization (SITP, arXiv 2301.00691) with map sizes as tasks."""

from pydantic import Field

from engineer.context import DesignContext
from engineer.contract import Brief, Designer, DesignerOptions
from engineer.engineers.shares import current_sizes, described, raw_config, share_out, valid_rates
from engineer.proposal import Proposal


class ProgressOptions(DesignerOptions):
    """How much of the budget does not depend on progress."""

    uniform: float = Field(default=0.2, ge=0, le=1)
    """Part of the budget that all map sizes share equally, so that none is lost for ever; 0 to 1, default 0.2."""


def progress_shares(before: dict[int, float], after: dict[int, float], uniform: float) -> dict[int, float] | None:
    """New shares from the success rates p of the same map sizes a stage ago and now; None if nothing has changed.

    share_s = (1 - uniform) |p_s - p_s'| / sum over all sizes + uniform / number of sizes. SITP selects a task by the change of its success
    rate; a fall counts as much as a rise, it shows what is being forgotten. The proportional form and `uniform` are ours.
    """
    changes = {size: abs(rate - before[size]) for size, rate in after.items()}
    total = sum(changes.values())
    if total <= 0:
        return None
    return {size: (1 - uniform) * change / total + uniform / len(changes) for size, change in changes.items()}


def _propose(context: DesignContext, options: ProgressOptions, brief: Brief) -> Proposal:
    earlier = next((record for record in context.history if record.stage == context.current.parent), None)
    if earlier is None:
        return brief.exactly(context, context.current.config, "Progress shows after two stages; the config is kept.")
    before, after = valid_rates(context, earlier), valid_rates(context, context.current)
    after = {size: rate for size, rate in after.items() if size in before}
    shares = share_out(context, after, lambda old: progress_shares(before, after, options.uniform))
    if shares is None:
        return brief.exactly(context, context.current.config, "No valid rate has changed since the stage before; the config is kept.")
    return brief.proposal(context, raw_config(current_sizes(context), shares), f"Data to the map sizes whose valid rate changed most: {described(shares)}.")


PROGRESS = Designer(_propose, ProgressOptions)
