"""Compare a stage with the best one before it, and say which policy and config the next stage starts from."""

import logging

from prefect import task

from engineer.gate import BASE_POLICY, decide, sign_test
from infra.runs.files import GATE, ROLLOUTS
from infra.runs.run import RunRef
from infra.runs.steps import StepRecord, run_step
from policy.evaluation import gains, solved_by_one
from tasks.run import log, task_options


@task(**task_options("gate"))
def judge(run: RunRef, stage: int, rollouts: StepRecord) -> StepRecord:
    """Write the gate's decision: this stage against the best evaluation before it, and what follows."""
    gate = run.preset.engineer.gate
    against = run.read(GATE, stage - 1).best if stage else BASE_POLICY

    def body() -> None:
        before, after = run.read(ROLLOUTS, against), run.read(ROLLOUTS, stage)
        p_value = sign_test(*solved_by_one(before, after))
        valid, optimal = gains(before, after)
        optimal_gain = optimal if run.preset.space.best else None
        decision = decide(gate, stage, against, valid, p_value, optimal_gain)
        level = logging.WARNING if decision.dropped else logging.INFO
        log.log(level, "stage %d: gate: %s", stage, decision.reason)
        run.write(GATE, decision, stage)

    name = ROLLOUTS.name
    decides = {
        "gate": gate,
        "against": against,
        "best": run.digest(ROLLOUTS, against),
        "rollouts": rollouts.outputs[name],
    }
    return run_step(run.folder(stage), "gate", decides, (GATE.name,), body)
