"""`results.json`: what a curriculum has achieved so far, for programs; the report draws it for people."""

from typing import NamedTuple

from pydantic import Field

from engineer.behaviour import ProposalBehaviour
from engineer.gate import BASE_POLICY, GateDecision
from engineer.proposal import Proposal
from envgen.breakdown import Breakdown, Difference
from envgen.config import EnvConfig
from envgen.frozen import Frozen
from infra.runs.decision import Decision
from policy.grpo.pilot import Piloted


class TrainingSummary(Frozen):
    """Figures of one stage's training."""

    steps: int
    seconds: float
    completion_tokens: int
    """Tokens generated during training."""
    mean_reward: float
    """Over the last fifth of the steps."""
    zero_variance_share: float
    """Share of groups whose rewards are all equal, over all steps: no learning signal there."""


class StageResult(Frozen):
    """One stage: the config it trained on, what the policy then got right, and what it proposed next."""

    stage: int
    parent: int = Field(default=BASE_POLICY, ge=BASE_POLICY)
    """The stage whose checkpoint it started from; -1 is the base policy."""
    config: EnvConfig
    training: TrainingSummary
    breakdown: Breakdown
    valid_gain: Difference
    """Validation valid rate minus the base policy's."""
    optimal_gain: Difference
    gate: GateDecision
    """This stage against the best evaluation before it, and what followed."""
    pilots: tuple[Piloted, ...] = ()
    """The expected learning signal of the proposed configs, for the policy in force; empty without a
    pilot."""
    proposal: Proposal
    decision: Decision | None = None
    """What a person decided on the proposal; None if nobody was asked, or has not answered."""
    rejected: tuple[Proposal, ...] = ()
    """The candidates that another one was preferred to."""
    behaviour: ProposalBehaviour
    """What the proposal did with the config and the evidence."""
    seconds: dict[str, float]
    """Wall time per step of the stage."""
    tokens: dict[str, int] = {}
    """Tokens that the stage generated, by what for, and those of the engineer's questions."""
    finished: str = ""
    """When the stage was complete, UTC, ISO 8601."""
    code: str = ""
    """Version of envwright, with the commit where it ran from a checkout."""
    machine: str = ""
    """What it was computed on."""

    @property
    def overruled(self) -> bool:
        """Whether the gate acted, so that no proposal was asked for."""
        return self.gate.action != "go-on"


class CurriculumResults(Frozen):
    """All finished stages of one curriculum."""

    curriculum: str
    preset: str
    engineer: str
    variant: str
    seed: int
    start: Breakdown
    """The base policy on the validation set, before any training."""
    stages: tuple[StageResult, ...]

    @property
    def final(self) -> "FinalPolicy":
        """The policy that the run ends with so far: that of the last stage, or the one that the gate rolled
        back to."""
        number = self.stages[-1].gate.in_force
        if number == BASE_POLICY:
            nothing = Difference(value=0, low=0, high=0)
            return FinalPolicy(BASE_POLICY, self.start, nothing, nothing)
        found = next(stage for stage in self.stages if stage.stage == number)
        return FinalPolicy(number, found.breakdown, found.valid_gain, found.optimal_gain)


class FinalPolicy(NamedTuple):
    """The policy that a run ends with, and what it gained over the base policy."""

    stage: int
    """The stage that made it; -1 is the base policy."""
    breakdown: Breakdown
    valid_gain: Difference
    optimal_gain: Difference
