"""Ask the engineer for the next environment config."""

from typing import Any

from engineer.context import DesignContext
from engineer.gate import GateDecision
from engineer.proposal import Proposal
from engineer.propose import design, fitted, unchanged
from envgen.breakdown import Breakdown
from envgen.config import EnvConfig
from infra.mlflow_log import end_trace, start_trace
from infra.runs.context import design_context, training_facts
from infra.runs.files import ENGINEER_STATE, PROPOSAL
from infra.runs.run import RunRef
from policy.grpo.train_spec import SPLITTING
from tasks.record import logged
from tasks.run import engine, log
from tasks.step import step


def _question(run: RunRef, stage: int) -> dict[str, Any]:
    """What decides the answer of the engineer, beside the evaluation.

    Without the number of stages and how steps are split up: a run that is extended, or resumed after it ran
    out of memory, must not ask again.
    """
    preset, asked = run.preset, run.asked(stage)
    neutral = {"stages": 1, "training": training_facts(preset, without=SPLITTING)}
    return {
        "context": design_context(run, stage).model_copy(update=neutral),
        "engineer": preset.effective_engineer().model_dump(mode="json"),
        "model": None if asked is None else run.identity(asked),
        "seed": preset.seed,
    }


@step("engineer", PROPOSAL, ENGINEER_STATE, decides=_question)
def propose(run: RunRef, stage: int, breakdown: Breakdown, gate: GateDecision) -> None:
    """Ask the engineer once for the next config: returns the `Proposal`."""
    proposal = _proposal(run, stage, design_context(run, stage), gate)
    reason = proposal.fallback or proposal.rationale or "(no reason given)"
    log.info("stage %d: %s proposes: %s", stage, proposal.engineer, reason)
    for change in proposal.changes:
        log.info("stage %d: projection: %s", stage, change)
    run.write(PROPOSAL, proposal, stage)
    run.write(ENGINEER_STATE, proposal.state, stage)


def _proposal(run: RunRef, stage: int, context: DesignContext, gate: GateDecision) -> Proposal:
    preset, asked = run.preset, run.asked(stage)
    spec = preset.effective_engineer()

    def fit(config: EnvConfig) -> tuple[EnvConfig, list[str]]:
        return run.possible(stage + 1, config)

    if gate.action != "go-on":
        config = run.config_of(gate.against)
        return fitted(unchanged(spec, context, config, f"by the gate: {gate.reason}"), config, fit)
    model = None if asked is None else engine(run.policy(asked), preset.engine, run.log("engine", stage))
    subject = f"trace of the design call after stage {stage}"
    later = f"it is not traced later; {PROPOSAL.name} holds prompt and answers"
    trace = logged(subject, lambda: start_trace(run, stage), later)
    proposal = design(spec, context, preset.seed, model, fit)
    if trace:
        logged(subject, lambda: end_trace(trace, proposal), later)
    return proposal
