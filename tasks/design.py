"""Decide what the next stage starts from: the gate picks policy and config, the engineer proposes."""

import logging
from typing import Any

from engineer.context import DesignContext
from engineer.contract import Proposal
from engineer.gate import GateDecision, decide
from engineer.propose import check_answers, design, fitted, unchanged
from envgen.config import EnvConfig
from infra.config.preset import Preset
from infra.runs.context import training_facts
from infra.runs.files import ENGINEER_STATE, GATE, MANIFEST, PROPOSAL, ROLLOUTS
from infra.runs.run import Run
from infra.runs.steps import Stored
from policy.evaluation import gains
from policy.grpo.train_spec import SPLITTING
from tasks.record import logged
from tasks.run import engine, log
from tasks.step import step

FUNCTION = "function_sha256"
"""Of the file of an engineer that is a function, in the manifest of a stage."""


def _compared(run: Run, stage: int, *_: Any) -> dict[str, Any]:
    return {"gate": run.preset.engineer.gate, "against": run.best(stage - 1)}


@step("gate", GATE, decides=_compared)
def judge(run: Run, stage: int, best: Stored, rollouts: Stored) -> None:
    """Compare a stage's rollouts with the best evaluation before it: returns the `GateDecision`."""
    before, after = ROLLOUTS.read(best.path), ROLLOUTS.read(rollouts.path)
    valid, _ = gains(before, after, run.preset.evaluation.samples)
    decision = decide(run.preset.engineer.gate, stage, run.best(stage - 1), valid)
    level = logging.WARNING if decision.dropped else logging.INFO
    gate = "gate (off)" if decision.gate == "off" else "gate"
    log.log(level, "stage %d: %s: %s", stage, gate, decision.reason)
    run.write(GATE, decision, stage)


def _asked(run: Run, stage: int, context: DesignContext, _: GateDecision) -> dict[str, Any]:
    """What decides the answer of the engineer, without the number of stages and how steps are split up: a run
    that is extended, or resumed after it ran out of memory, must not ask again."""
    preset, asked = run.preset, run.asked(stage)
    neutral = {"stages": 1, "training": training_facts(preset, without=SPLITTING)}
    return {
        "context": context.model_copy(update=neutral),
        "engineer": preset.engineer.model_dump(mode="json", exclude={"on_failure"}),
        "model": None if asked is None else [run.identity(asked), preset.chat_template_kwargs],
        "seed": preset.seed,
    }


@step("engineer", PROPOSAL, ENGINEER_STATE, decides=_asked)
def propose(run: Run, stage: int, context: DesignContext, gate: GateDecision) -> dict[str, Any]:
    """Ask the engineer once for the next config: returns the `Proposal`; the manifest gets the digest of a
    function, which may be mended while a run waits."""
    sha256, before = run.preset.engineer.sha256, None
    if stage and run.has(MANIFEST, stage - 1):
        before = run.read(MANIFEST, stage - 1).get(FUNCTION)
    if before and before != sha256:
        log.warning("stage %d: %s changed after stage %d", stage, run.preset.engineer.name, stage - 1)
    proposal = _proposal(run, stage, context, gate)
    reason = proposal.fallback or proposal.rationale or "(no reason given)"
    proposes = "proposes" if stage + 1 < run.preset.stages else "proposes, for a stage that is not run"
    log.info("stage %d: %s %s: %s", stage, proposal.engineer, proposes, reason)
    for change in proposal.changes:
        log.info("stage %d: projection: %s", stage, change)
    run.write(PROPOSAL, proposal, stage)
    run.write(ENGINEER_STATE, proposal.state, stage)
    return {FUNCTION: sha256} if sha256 else {}


def _proposal(run: Run, stage: int, context: DesignContext, gate: GateDecision) -> Proposal:
    preset, asked = run.preset, run.asked(stage)
    spec = preset.engineer

    def fit(config: EnvConfig) -> tuple[EnvConfig, list[str]]:
        return run.possible(stage + 1, config)

    if gate.action != "go-on":
        config = run.config_of(gate.against)
        return fitted(unchanged(spec, context, config, f"by the gate: {gate.reason}"), config, fit)
    how = preset.engine, run.log("engine", stage), preset.chat_template_kwargs
    model = None if asked is None else engine(run.policy(asked), *how)
    subject = f"trace of the design call after stage {stage}"
    later = f"it is not traced later; {PROPOSAL.name} holds prompt and answers"
    trace = logged(subject, lambda mlflow: mlflow.start_trace(run, stage), later)
    proposal = design(spec, context, preset.seed, model, fit)
    if trace:
        logged(subject, lambda mlflow: mlflow.end_trace(trace, proposal), later)
    return proposal


def check_engineer(preset: Preset) -> None:
    """ModelError if the endpoint of the engineer does not answer one small question."""
    if check_answers(preset.engineer, preset.space):
        log.info("engineer %s: its endpoint answers", preset.engineer.name)
