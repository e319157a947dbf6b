"""Size of a proposal and where it puts the data, in numbers.

`config` is the config of the stage just trained, `proposed` the next one. Shares of a config are scaled to
sum to 1; a stratum that a config does not name has share 0. Rates come from the breakdown that the
engineer saw.
"""

from pydantic import Field

from envgen.breakdown import Breakdown
from envgen.config import EnvConfig
from envgen.frozen import Frozen

UNSOLVED, SOLVED = 0.05, 0.95
"""Valid rates below the first count as unsolved, above the second as solved."""


class EvidenceShares(Frozen):
    """Shares of a config's data by the valid rate of its strata; each from 0 to 1."""

    unsolved: float
    """On strata below 5 % valid."""
    solved: float
    """On strata above 95 % valid."""


class ProposalBehaviour(Frozen):
    """What one proposal did with the config and the evidence of the stage before it."""

    moved: float = Field(ge=0, le=1)
    """Share of the data that moved to other strata."""
    shares: EvidenceShares
    """Of the config of the stage."""
    proposed_shares: EvidenceShares
    """Of the proposed config, by the same evidence."""


def proposal_behaviour(config: EnvConfig, proposed: EnvConfig, breakdown: Breakdown) -> ProposalBehaviour:
    """Return all measures of one proposal, after projection."""
    moved = sum(abs(after - before) for before, after in budgets([config, proposed]).values()) / 2
    return ProposalBehaviour(
        moved=min(moved, 1.0),
        shares=evidence_shares(config, breakdown),
        proposed_shares=evidence_shares(proposed, breakdown),
    )


def budgets(configs: list[EnvConfig]) -> dict[str, tuple[float, ...]]:
    """Return each stratum's share of the data in each config, 0 to 1; each config's shares sum to 1."""
    shares = [_shares(config) for config in configs]
    names = dict.fromkeys(name for config in configs for name in config.strata)
    return {name: tuple(share.get(name, 0.0) for share in shares) for name in names}


def evidence_shares(config: EnvConfig, breakdown: Breakdown) -> EvidenceShares:
    """Return how much of a config's data lies on unsolved and on solved strata."""
    rates = {name: part.valid / part.n for name, part in breakdown.strata.items() if part.n}
    shares = {name: share for name, share in _shares(config).items() if name in rates}
    return EvidenceShares(
        unsolved=min(sum(share for name, share in shares.items() if rates[name] < UNSOLVED), 1.0),
        solved=min(sum(share for name, share in shares.items() if rates[name] > SOLVED), 1.0),
    )


def _shares(config: EnvConfig) -> dict[str, float]:
    total = sum(part.data_ratio for part in config.strata.values())
    return {name: part.data_ratio / total for name, part in config.strata.items()}
