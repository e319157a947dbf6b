"""Compare a stage with the best one before it, and say which policy and config the next stage starts from."""

import logging
from typing import Any

from engineer.gate import decide, sign_test
from infra.runs.files import GATE, ROLLOUTS
from infra.runs.run import RunRef
from infra.runs.steps import Stored
from policy.evaluation import gains, solved_by_one
from tasks.run import log
from tasks.step import step


def _compared(run: RunRef, stage: int) -> dict[str, Any]:
    return {"gate": run.preset.engineer.gate, "against": run.best(stage - 1)}


@step("gate", GATE, decides=_compared)
def judge(run: RunRef, stage: int, best: Stored, rollouts: Stored) -> None:
    """Compare a stage's rollouts with the best evaluation before it: returns the `GateDecision`."""
    before, after = ROLLOUTS.read(best.path), ROLLOUTS.read(rollouts.path)
    p_value = sign_test(*solved_by_one(before, after))
    valid, optimal = gains(before, after)
    optimal_gain = optimal if run.preset.space.best else None
    against = run.best(stage - 1)
    decision = decide(run.preset.engineer.gate, stage, against, valid, p_value, optimal_gain)
    level = logging.WARNING if decision.dropped else logging.INFO
    log.log(level, "stage %d: gate: %s", stage, decision.reason)
    run.write(GATE, decision, stage)
