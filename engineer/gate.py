"""The gate: whether a stage made the policy worse than the best stage before it, and what then happens."""

from typing import Literal

from pydantic import Field

from envgen.estimates import Difference
from envgen.frozen import Frozen

BASE_POLICY = -1
"""The number of the base policy where stages are counted."""

Gate = Literal["off", "rollback"]
"""`off`: a drop is recorded and nothing done. `rollback`: the next stage trains the checkpoint of the best
stage on the config of the best stage."""


class GateDecision(Frozen):
    """The comparison of a stage with the best one before it, and its consequence."""

    stage: int = Field(ge=0)
    gate: Gate
    against: int = Field(ge=BASE_POLICY)
    """The best evaluation before this stage; -1 is the base policy."""
    valid: Difference
    """Valid rate after this stage minus the rate of `against`, on the same instances."""
    optimal: Difference | None = None
    """The same of the optimal rate, by which the gate does not judge; None if the environment has none,
    or it was not kept."""
    action: Literal["go-on", "rollback"]
    reason: str
    best: int = Field(ge=BASE_POLICY)
    """The best evaluation so far, this stage included."""
    in_force: int = Field(ge=BASE_POLICY)
    """The stage whose checkpoint the next stage starts from, and that the run ends with if there is none."""

    @property
    def dropped(self) -> bool:
        """Whether the valid rate fell, by its p-value."""
        return self.valid.sign < 0


def decide(
    gate: Gate,
    stage: int,
    against: int,
    valid: Difference,
    optimal: Difference | None = None,
) -> GateDecision:
    """The decision after a stage; `valid` is its valid rate minus the rate of `against`, the best evaluation
    before it. `optimal` is only recorded.

    Only a drop that is shown has consequences. The best of several evaluations is too high on average,
    so that a stage that is no worse may be stopped; the interval does not correct for it.
    """
    dropped = valid.sign < 0
    rollback = dropped and gate == "rollback"
    consequence = "the gate is off"
    if rollback:
        config = name_of(max(against, 0))
        consequence = f"the next stage starts from {name_of(against)} with the config of {config}"
    return GateDecision(
        stage=stage,
        gate=gate,
        against=against,
        valid=valid,
        optimal=optimal,
        action="rollback" if rollback else "go-on",
        reason=f"valid rate {valid} against {name_of(against)}, p = {valid.p:.2g}: "
        + (f"a drop; {consequence}" if dropped else "no drop is shown"),
        best=stage if valid.value > 0 else against,
        in_force=against if rollback else stage,
    )


def name_of(stage: int) -> str:
    """`stage 2`, or `the base policy` for -1."""
    return "the base policy" if stage == BASE_POLICY else f"stage {stage}"
