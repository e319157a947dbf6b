"""What the engineer changed: each stage's proposal against the config that the stage was trained on."""

from dataclasses import dataclass

from engineer.claims import Claims
from engineer.proposal import Proposal
from envgen.config import EnvConfig, SizeConfig
from infra.report.text import share
from infra.runs.decision import Decision
from infra.runs.results import CurriculumResults
from policy.pilot_score import Piloted


@dataclass(frozen=True)
class Change:
    """One knob of one map size as shown; None where the config has no such map size."""

    old: str | None
    new: str | None

    @property
    def changed(self) -> bool:
        """Whether old and new differ as far as they are shown."""
        return self.old != self.new

    @property
    def text(self) -> str:
        """`30 %`, or `30 % → 35 %` if it changed."""
        return f"{self.old or 'none'} → {self.new or 'none'}" if self.changed else self.new or "none"


@dataclass(frozen=True)
class SizeChanges:
    """The knobs of one map size."""

    size: int
    knobs: tuple[Change, ...]
    """data_ratio, hole_ratio, wait_ratio."""


@dataclass(frozen=True)
class Card:
    """One proposal."""

    proposal: Proposal
    pilots: tuple[Piloted, ...]
    """The pilot scores of all configs that were proposed."""
    sizes: tuple[SizeChanges, ...]
    proposed_next: bool
    """Whether its stage has not run yet."""
    overruled: bool
    """Whether the stage after it was trained on another config."""
    decision: Decision | None
    """What a person decided on it, if anybody was asked."""
    claims: Claims | None
    """Of the rationale; None if there is none, or its claims were not checked."""
    by_gate: bool
    """Whether the gate decided instead of the designer."""

    @property
    def unchanged(self) -> bool:
        """Whether the config stays as it was."""
        return not any(knob.changed for row in self.sizes for knob in row.knobs)


def cards(results: CurriculumResults) -> list[Card]:
    """One card a stage, in order."""
    followers = [*(stage.config for stage in results.stages[1:]), None]
    return [
        Card(
            proposal=stage.proposal,
            pilots=stage.pilots,
            decision=stage.decision,
            claims=stage.behaviour.claims if stage.proposal.rationale else None,
            by_gate=stage.overruled,
            sizes=changes_between(stage.config, stage.proposal.config),
            proposed_next=follower is None,
            overruled=follower is not None and any(knob.changed for row in changes_between(stage.proposal.config, follower) for knob in row.knobs),
        )
        for stage, follower in zip(results.stages, followers, strict=True)
    ]


def changes_between(old: EnvConfig, new: EnvConfig) -> tuple[SizeChanges, ...]:
    """What a new config changes, one entry a map size of either."""
    return tuple(
        SizeChanges(size, tuple(Change(before, after) for before, after in zip(_knobs(old.sizes.get(size)), _knobs(new.sizes.get(size)), strict=True)))
        for size in sorted(old.sizes.keys() | new.sizes.keys())
    )


def _knobs(config: SizeConfig | None) -> tuple[str | None, ...]:
    if config is None:
        return None, None, None
    return share(config.data_ratio), share(config.hole_ratio), share(config.wait_ratio)
