"""What the engineer changed: each stage's proposal against the config that the stage was trained on."""

from dataclasses import dataclass

from engineer.claims import Claims
from engineer.proposal import Proposal
from envgen.config import EnvConfig
from envgen.family import Space
from infra.analysis.formats import StratumChanges, changes_between
from infra.runs.decision import Decision
from infra.runs.results import CurriculumResults
from policy.grpo.pilot_score import Piloted


@dataclass(frozen=True)
class Card:
    """One proposal."""

    proposal: Proposal
    pilots: tuple[Piloted, ...]
    """The pilot scores of all configs that were proposed."""
    strata: tuple[StratumChanges, ...]
    proposed_next: bool
    """Whether its stage has not run yet."""
    overruled: bool
    """Whether the stage after it was trained on another config."""
    decision: Decision | None
    """What a person decided on it, if anybody was asked."""
    claims: Claims | None
    """Of the rationale; None if there is none, or its claims were not checked."""
    by_gate: bool
    """Whether the gate decided instead of the engineer."""

    @property
    def unchanged(self) -> bool:
        """Whether the config stays as it was."""
        return not any(knob.changed for row in self.strata for knob in row.knobs)


def cards(space: Space, results: CurriculumResults) -> list[Card]:
    """One card a stage, in order."""
    followers = [*(stage.config for stage in results.stages[1:]), None]
    return [
        Card(
            proposal=stage.proposal,
            pilots=stage.pilots,
            decision=stage.decision,
            claims=stage.behaviour.claims if stage.proposal.rationale else None,
            by_gate=stage.overruled,
            strata=changes_between(space, stage.config, stage.proposal.config),
            proposed_next=follower is None,
            overruled=follower is not None and _differ(space, stage.proposal.config, follower),
        )
        for stage, follower in zip(results.stages, followers, strict=True)
    ]


def _differ(space: Space, proposed: EnvConfig, used: EnvConfig) -> bool:
    return any(knob.changed for row in changes_between(space, proposed, used) for knob in row.knobs)
