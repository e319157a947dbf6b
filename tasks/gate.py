"""Compare a stage with the best one before it, and say which policy and config the next stage starts from."""

import logging

from prefect import task

from engineer.gate import START, decide, sign_test
from envgen.config import EnvConfig
from envgen.files import file_digest, write_json
from infra.runs.steps import StepRecord, run_step
from policy.evaluation import gains, solved_by_one
from policy.rollouts import read_rollouts
from tasks.learn import ROLLOUTS
from tasks.run import GATE, RunRef, log, read_gate, task_options


@task(**task_options("gate"))
def judge(run: RunRef, stage: int, rollouts: StepRecord) -> StepRecord:
    """Write `gate.json`: this stage against the best evaluation before it, and what follows."""
    directory, gate = run.stage(stage), run.preset.design.gate
    against = read_gate(run, stage - 1).best if stage else START

    def body() -> None:
        before, after = (read_rollouts(run.evaluation(number) / ROLLOUTS) for number in (against, stage))
        decision = decide(gate, stage, against, gains(before, after)[0], sign_test(*solved_by_one(before, after)))
        log.log(logging.WARNING if decision.dropped else logging.INFO, "stage %d: gate: %s", stage, decision.reason)
        write_json(directory / GATE, decision)

    decides = {"gate": gate, "against": against, "best": file_digest(run.evaluation(against) / ROLLOUTS), "rollouts": rollouts.outputs[ROLLOUTS]}
    return run_step(directory, "gate", decides, (GATE,), body)


def config_of(run: RunRef, stage: int) -> EnvConfig:
    """The config that a stage was trained on; that of stage 0 for the start policy."""
    return EnvConfig.model_validate_json((run.stage(max(stage, 0)) / "config.json").read_bytes())
