"""Size of a proposal and where it puts the data, in numbers.

`config` is the config of the stage just trained, `proposed` the next one. Shares of a config are scaled to
sum to 1; a stratum that a config does not name has share 0. Knobs of a stratum count only where it has data
in both configs. Rates are those of the breakdown that the engineer saw.
"""

from typing import Annotated

from pydantic import Field

from envgen.breakdown import Breakdown
from envgen.config import EnvConfig
from envgen.frozen import Frozen
from envgen.space import Space

UNSOLVED, SOLVED = 0.05, 0.95
"""Valid rates below the first count as unsolved, above the second as solved."""


class EditSize(Frozen):
    """L1 distance between two configs, knob by knob: the sum of |new - old| over strata."""

    data_ratio: float = Field(ge=0, le=2)
    """Over all strata; half of it is the share of the data that moved."""
    knobs: dict[str, Annotated[float, Field(ge=0)] | None]
    """By knob, over the strata with data in both configs; None if there are none."""


class EvidenceShares(Frozen):
    """Shares of a config's data by the valid rate of its strata; each from 0 to 1."""

    unsolved: float
    """On strata below 5 % valid."""
    solved: float
    """On strata above 95 % valid."""
    unseen: float
    """On strata that were not evaluated."""


class ProposalBehaviour(Frozen):
    """What one proposal did with the config and the evidence of the stage before it."""

    edit: EditSize
    """From the config of the stage to the proposed one, after projection."""
    shares: EvidenceShares
    """Of the config of the stage."""
    proposed_shares: EvidenceShares
    """Of the proposed config, by the same evidence."""


def proposal_behaviour(
    space: Space, config: EnvConfig, proposed: EnvConfig, breakdown: Breakdown
) -> ProposalBehaviour:
    """Return all measures of one proposal."""
    return ProposalBehaviour(
        edit=edit_size(space, config, proposed),
        shares=evidence_shares(config, breakdown),
        proposed_shares=evidence_shares(proposed, breakdown),
    )


def budgets(configs: list[EnvConfig]) -> dict[str, tuple[float, ...]]:
    """Return each stratum's share of the data in each config, 0 to 1; each config's shares sum to 1."""
    shares = [_shares(config) for config in configs]
    return {name: tuple(share.get(name, 0.0) for share in shares) for name in _names(*configs)}


def edit_size(space: Space, old: EnvConfig, new: EnvConfig) -> EditSize:
    """Return how far a new config is from an old one."""
    before, after = _shares(old), _shares(new)
    moved = sum(abs(after.get(name, 0.0) - before.get(name, 0.0)) for name in _names(old, new))
    knobs: dict[str, float | None] = {knob.name: None for knob in space.knobs}
    for name, part in new.strata.items():
        earlier = old.strata.get(name)
        if earlier is None or min(part.data_ratio, earlier.data_ratio) <= 0:
            continue
        for knob in knobs.keys() & part.knobs.keys() & earlier.knobs.keys():
            knobs[knob] = (knobs[knob] or 0.0) + abs(part[knob] - earlier[knob])
    return EditSize(data_ratio=min(moved, 2.0), knobs=knobs)


def evidence_shares(config: EnvConfig, breakdown: Breakdown) -> EvidenceShares:
    """Return how much of a config's data lies on unsolved, solved and unseen strata."""
    totals = dict.fromkeys(EvidenceShares.model_fields, 0.0)
    for name, share in _shares(config).items():
        part = breakdown.strata.get(name)
        if part is None or not part.n:
            totals["unseen"] += share
        elif part.valid < UNSOLVED * part.n:
            totals["unsolved"] += share
        elif part.valid > SOLVED * part.n:
            totals["solved"] += share
    return EvidenceShares(**{name: min(share, 1.0) for name, share in totals.items()})


def _shares(config: EnvConfig) -> dict[str, float]:
    total = sum(part.data_ratio for part in config.strata.values())
    return {name: part.data_ratio / total for name, part in config.strata.items()}


def _names(*configs: EnvConfig) -> list[str]:
    """Return the strata of configs, in the order of the first, then of the others."""
    return list(dict.fromkeys(name for config in configs for name in config.strata))
