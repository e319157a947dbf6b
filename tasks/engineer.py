"""Ask the engineer for the next environment config."""

from prefect import task

from engineer.context import DesignContext
from engineer.proposal import Proposal
from engineer.propose import design, fitted, unchanged
from envgen.config import EnvConfig
from infra.mlflow_log import end_trace, start_trace
from infra.runs.context import design_context, training_facts
from infra.runs.files import ENGINEER_STATE, GATE, PROPOSAL
from infra.runs.run import RunRef
from infra.runs.steps import StepRecord, run_step
from policy.grpo.train_spec import SPLITTING
from tasks.record import logged
from tasks.run import engine, log, task_options


@task(**task_options("engineer"))
def propose(run: RunRef, stage: int, breakdown: StepRecord, gate: StepRecord) -> StepRecord:
    """Write what the engineer proposes for the next stage, and what it remembers. Asked once; a repeated call
    reads the answer."""
    preset, context = run.preset, design_context(run, stage)

    def body() -> None:
        proposal = _proposal(run, stage, context)
        reason = proposal.fallback or proposal.rationale or "(no reason given)"
        log.info("stage %d: %s proposes: %s", stage, proposal.engineer, reason)
        for cut in proposal.cuts:
            log.info("stage %d: left out of the prompt: %s", stage, cut)
        for change in proposal.changes:
            log.info("stage %d: projection: %s", stage, change)
        run.write(PROPOSAL, proposal, stage)
        run.write(ENGINEER_STATE, proposal.state, stage)

    # Without the number of stages and how steps are split up: a run that is extended, or resumed after it ran
    # out of memory, must not ask again.
    neutral = {"stages": 1, "training": training_facts(preset, without=SPLITTING)}
    decides = {
        "context": context.model_copy(update=neutral),
        "breakdown": breakdown.key,
        "gate": gate.key,
        "engineer": preset.effective_engineer().model_dump(mode="json"),
        "model": run.identity(asked) if (asked := run.asked(stage)) is not None else None,
        "seed": preset.seed,
    }
    return run_step(run.folder(stage), "engineer", decides, (PROPOSAL.name, ENGINEER_STATE.name), body)


def _proposal(run: RunRef, stage: int, context: DesignContext) -> Proposal:
    preset, asked = run.preset, run.asked(stage)
    spec, gate = preset.effective_engineer(), run.read(GATE, stage)

    def fit(config: EnvConfig) -> tuple[EnvConfig, list[str]]:
        return run.possible(stage + 1, config)

    if gate.action != "go-on":
        config = run.config_of(gate.against)
        return fitted(unchanged(spec, context, config, f"by the gate: {gate.reason}"), config, fit)
    model = None if asked is None else engine(run.policy(asked), preset.engine, run.log("engine", stage))
    subject = f"trace of the design call after stage {stage}"
    trace = logged(subject, lambda: start_trace(run, stage))
    proposal = design(spec, context, preset.seed, model, fit)
    if trace:
        logged(subject, lambda: end_trace(trace, proposal))
    return proposal
