"""`progress`: Success Induced Task Prioritization (SITP, arXiv 2301.00691) with strata as tasks."""

from pydantic import Field

from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions
from engineer.engineers.shares import current_parts, described, raw_config, share_out, valid_rates
from engineer.proposal import Proposal
from engineer.words import plural


class ProgressOptions(EngineerOptions):
    """How much of the budget does not depend on progress."""

    uniform: float = Field(default=0.2, ge=0, le=1)
    """Part of the budget that all strata share equally, so that none is lost for ever; 0 to 1, default
    0.2."""


def progress_shares(
    before: dict[str, float], after: dict[str, float], uniform: float
) -> dict[str, float] | None:
    """New shares from the success rates p of the same strata a stage ago and now; None if nothing has
    changed.

    share_s = (1 - uniform) |p_s - p_s'| / sum over all strata + uniform / number of strata. SITP selects a
    task by the change of its success rate; a fall counts as much as a rise, it shows what is being forgotten.
    The proportional form and `uniform` are ours.
    """
    changes = {name: abs(rate - before[name]) for name, rate in after.items()}
    total = sum(changes.values())
    if total <= 0:
        return None
    return {name: (1 - uniform) * change / total + uniform / len(changes) for name, change in changes.items()}


def _propose(context: DesignContext, options: ProgressOptions, brief: Brief) -> Proposal:
    """Data by the change of the valid rate since the stage before (SITP)."""
    space, current = context.space, context.current
    earlier = next((record for record in context.history if record.stage == current.parent), None)
    if earlier is None:
        reason = "Progress shows after two stages; the config is kept."
        return brief.exactly(context, current.config, reason)
    before, after = valid_rates(context, earlier), valid_rates(context, current)
    after = {name: rate for name, rate in after.items() if name in before}
    shares = share_out(context, after, lambda old: progress_shares(before, after, options.uniform))
    if shares is None:
        reason = "No valid rate has changed since the stage before; the config is kept."
        return brief.exactly(context, current.config, reason)
    reason = f"Data to the {plural(space.noun)} whose valid rate changed most: {described(space, shares)}."
    return brief.proposal(context, raw_config(space, current_parts(context), shares), reason)


PROGRESS = Engineer(_propose, ProgressOptions)
