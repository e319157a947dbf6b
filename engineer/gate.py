"""The gate: whether a stage made the policy worse than the best stage before it, and what then happens."""

from typing import Literal

from pydantic import Field

from envgen.estimates import Difference
from envgen.frozen import Frozen

BASE_POLICY = -1
"""The number of the base policy where stages are counted."""

Gate = Literal["off", "rollback"]
"""`off`: a drop is only recorded. `rollback`: checkpoint and config of the best stage are trained next."""


class GateDecision(Frozen):
    """The comparison of a stage with the best one before it, and its consequence."""

    stage: int = Field(ge=0)
    gate: Gate
    against: int = Field(ge=BASE_POLICY)
    """The best evaluation before this stage; -1 is the base policy."""
    valid: Difference
    """Valid rate after this stage minus the rate of `against`, on the same instances."""
    action: Literal["go-on", "rollback"]
    reason: str
    best: int = Field(ge=BASE_POLICY)
    """The best evaluation so far, this stage included."""
    in_force: int = Field(ge=BASE_POLICY)
    """The stage whose checkpoint the next stage starts from, or the run ends with."""

    @property
    def dropped(self) -> bool:
        """Whether the valid rate fell, by its p-value."""
        return self.valid.sign < 0


def decide(gate: Gate, stage: int, against: int, valid: Difference) -> GateDecision:
    """Return the decision after a stage from the fields of `GateDecision`. Only a significant drop has
    consequences. The best of several evaluations is too high on average, so that a stage that is no worse may
    be stopped; the interval does not correct for it."""
    rollback = gate == "rollback" and valid.sign < 0
    consequence = ("no drop is shown", "no drop", "a drop; the gate is off")[valid.sign]
    if rollback:
        config = name_of(max(against, 0))
        consequence = f"a drop; the next stage starts from {name_of(against)} with the config of {config}"
    return GateDecision(
        stage=stage,
        gate=gate,
        against=against,
        valid=valid,
        action="rollback" if rollback else "go-on",
        reason=f"valid rate {valid} against {name_of(against)}, p = {valid.p:.2g}: {consequence}",
        best=stage if valid.value > 0 else against,
        in_force=against if rollback else stage,
    )


def name_of(stage: int) -> str:
    """Return `stage 2`, or `the base policy` for -1."""
    return "the base policy" if stage == BASE_POLICY else f"stage {stage}"
