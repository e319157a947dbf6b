"""Compare a stage with the best one before it, and say which policy and config the next stage starts from."""

from prefect import task

from engineer.gate import START, GateDecision, decide
from envgen.config import EnvConfig
from envgen.files import file_digest, write_json
from infra.steps import StepRecord, run_step
from policy.evaluation import gains
from policy.rollouts import read_rollouts
from tasks.learn import ROLLOUTS
from tasks.run import RunRef, log, task_options

GATE = "gate.json"


@task(**task_options("gate"))
def judge(run: RunRef, stage: int, rollouts: StepRecord) -> StepRecord:
    """Write `gate.json`: this stage against the best evaluation before it, and what follows."""
    directory, gate = run.stage(stage), run.preset.design.gate
    against = read_gate(run, stage - 1).best if stage else START

    def body() -> None:
        before, after = (read_rollouts(run.evaluation(number) / ROLLOUTS) for number in (against, stage))
        decision = decide(gate, stage, against, gains(before, after)[0])
        log.log(30 if decision.dropped else 20, "stage %d: gate: %s", stage, decision.reason)
        write_json(directory / GATE, decision)

    decides = {"gate": gate, "against": against, "best": file_digest(run.evaluation(against) / ROLLOUTS), "rollouts": rollouts.outputs[ROLLOUTS]}
    return run_step(directory, "gate", decides, (GATE,), body)


def read_gate(run: RunRef, stage: int) -> GateDecision:
    """The decision after a finished stage."""
    return GateDecision.model_validate_json((run.stage(stage) / GATE).read_bytes())


def parent_stage(run: RunRef, stage: int) -> int:
    """The stage whose checkpoint a stage started from; -1 is the start policy."""
    return read_gate(run, stage - 1).in_force if stage else START


def config_of(run: RunRef, stage: int) -> EnvConfig:
    """The config that a stage was trained on; that of stage 0 for the start policy."""
    return EnvConfig.model_validate_json((run.stage(max(stage, 0)) / "config.json").read_bytes())
