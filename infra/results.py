"""`results.json`: what a curriculum has achieved so far, for programs; the report draws it for people."""

from pydantic import BaseModel, ConfigDict

from engineer.behaviour import ProposalBehaviour
from engineer.proposal import Proposal
from envgen.breakdown import Breakdown, Difference
from envgen.config import EnvConfig


class TrainingSummary(BaseModel):
    """Figures of one stage's training."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    steps: int
    seconds: float
    completion_tokens: int
    """Tokens generated during training."""
    mean_reward: float
    """Over the last fifth of the steps."""
    zero_variance_share: float
    """Share of groups whose rewards are all equal, over all steps: no learning signal there."""


class StageResult(BaseModel):
    """One stage: the config it trained on, what the policy then got right, and what it proposed next."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    stage: int
    config: EnvConfig
    training: TrainingSummary
    breakdown: Breakdown
    valid_gain: Difference
    """Validation valid rate minus the start policy's."""
    optimal_gain: Difference
    proposal: Proposal
    behaviour: ProposalBehaviour | None = None
    """What the proposal did with the config and the evidence; None where it was not measured."""
    seconds: dict[str, float]
    """Wall time per step of the stage."""


class CurriculumResults(BaseModel):
    """All finished stages of one curriculum."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    curriculum: str
    preset: str
    designer: str
    variant: str
    seed: int
    start: Breakdown
    """The start policy on the validation set, before any training."""
    stages: tuple[StageResult, ...]


def final_stage(results: CurriculumResults) -> int:
    """The stage whose policy is in force at the end of a curriculum: the last one."""
    return results.stages[-1].stage
