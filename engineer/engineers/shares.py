"""What the engineers that are rules have in common: rates to read, shares to write."""

from collections.abc import Callable
from typing import Any

from engineer.context import DesignContext, StageRecord
from envgen.config import SHARE, Part
from envgen.space import Space


def valid_rates(context: DesignContext, record: StageRecord) -> dict[str, float]:
    """Stratum -> valid rate after a stage; strata of the space that were not evaluated are left out."""
    parts = {name: record.breakdown.strata.get(name) for name in context.space.names}
    return {name: part.valid / part.n for name, part in parts.items() if part is not None and part.n}


def current_parts(context: DesignContext) -> dict[str, Part]:
    """The current share and knobs of each stratum of the space; one that the config does not name has no
    share."""
    return {name: context.space.part(context.current.config, name) for name in context.space.names}


def raw_config(
    space: Space, parts: dict[str, Part], shares: dict[str, float] | None = None
) -> dict[str, Any]:
    """A raw config of these parts, with other shares if any are given."""
    new = {name: part[SHARE] for name, part in parts.items()} | (shares or {})
    return {space.key: {name: {SHARE: new[name], **part.knobs} for name, part in parts.items()}}


def share_out(
    context: DesignContext,
    evaluated: dict[str, float],
    divide: Callable[[dict[str, float]], dict[str, float] | None],
) -> dict[str, float] | None:
    """New shares of the evaluated strata, which divide what they have together; the others keep theirs.

    `divide` gets the strata's shares of their common budget and returns new ones that sum to 1, or None to
    leave all as it is.
    """
    shares = {name: part[SHARE] for name, part in current_parts(context).items() if name in evaluated}
    budget = sum(shares.values())
    if budget <= 0:
        return None
    divided = divide({name: share / budget for name, share in shares.items()})
    return None if divided is None else {name: share * budget for name, share in divided.items()}


def described(space: Space, shares: dict[str, float]) -> str:
    """Shares in words, as `2 terms 40 %, 3 terms 60 %`."""
    return ", ".join(f"{space.label(name)} {100 * share:.0f} %" for name, share in shares.items())
