"""The gate: whether a stage made the policy worse than the best stage before it, and what then happens."""

from typing import Literal

from pydantic import Field

from envgen.breakdown import Difference
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
    p_value: float = Field(ge=0, le=1)
    """Of the exact sign test on the instances that only one of the two solved."""
    action: Literal["go-on", "rollback"]
    reason: str
    best: int = Field(ge=BASE_POLICY)
    """The best evaluation so far, this stage included."""
    in_force: int = Field(ge=BASE_POLICY)
    """The stage whose checkpoint the next stage starts from, and that the run ends with if there is none."""

    @property
    def dropped(self) -> bool:
        """Whether the valid rate fell, see `fell`."""
        return fell(self.valid, self.p_value)


def sign_test(wins: int, losses: int) -> float:
    """Two-sided p-value of the exact sign test (McNemar's, exact), 0 to 1; 1 without wins and losses, both at
    least 0."""
    from scipy.special import bdtr  # scipy.stats takes two seconds to import

    return min(1.0, 2 * float(bdtr(min(wins, losses), wins + losses, 0.5)))


def fell(valid: Difference, p_value: float) -> bool:
    """Whether a drop is shown: the paired 95 % interval lies below 0 and the sign test has p < 0.05.

    The bootstrap alone is too sure of itself where few instances changed: four lost and none won exclude 0
    from its interval.
    """
    return valid.high < 0 and p_value < 0.05


def decide(
    gate: Gate,
    stage: int,
    against: int,
    valid: Difference,
    p_value: float,
    optimal: Difference | None = None,
) -> GateDecision:
    """The decision after a stage; `valid` is its valid rate minus the rate of `against`, the best evaluation
    before it. `optimal` is only recorded.

    Only a drop that is shown has consequences. The best of several evaluations is too high on average,
    so that a stage that is no worse may be stopped; the interval does not correct for it.
    """
    dropped = fell(valid, p_value)
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
        p_value=p_value,
        action="rollback" if rollback else "go-on",
        reason=f"valid rate {valid} against {name_of(against)}, p = {p_value:.2g}: "
        + (f"a drop; {consequence}" if dropped else "no drop is shown"),
        best=stage if valid.value > 0 else against,
        in_force=against if rollback else stage,
    )


def name_of(stage: int) -> str:
    """`stage 2`, or `the base policy` for -1."""
    return "the base policy" if stage == BASE_POLICY else f"stage {stage}"
