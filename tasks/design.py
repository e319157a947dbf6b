"""Decide what the next stage starts from: the gate picks policy and config, the engineer proposes."""

import logging
from typing import Any

from engineer.context import DesignContext
from engineer.gate import GateDecision, decide
from engineer.proposal import Proposal
from engineer.propose import design, fitted, unchanged
from envgen.config import EnvConfig
from infra.runs.context import training_facts
from infra.runs.files import ENGINEER_STATE, GATE, PROPOSAL, ROLLOUTS
from infra.runs.run import Run
from infra.runs.steps import Stored
from policy.evaluation import gains
from policy.grpo.train_spec import SPLITTING
from tasks.record import logged
from tasks.run import engine, log
from tasks.step import step


def _compared(run: Run, stage: int, *_: Any) -> dict[str, Any]:
    return {"gate": run.preset.engineer.gate, "against": run.best(stage - 1)}


@step("gate", GATE, decides=_compared)
def judge(run: Run, stage: int, best: Stored, rollouts: Stored) -> None:
    """Compare a stage's rollouts with the best evaluation before it: returns the `GateDecision`."""
    before, after = ROLLOUTS.read(best.path), ROLLOUTS.read(rollouts.path)
    valid, optimal = gains(before, after)
    optimal_gain = optimal if run.preset.space.best else None
    against = run.best(stage - 1)
    decision = decide(run.preset.engineer.gate, stage, against, valid, optimal_gain)
    level = logging.WARNING if decision.dropped else logging.INFO
    log.log(level, "stage %d: gate: %s", stage, decision.reason)
    run.write(GATE, decision, stage)


def _asked(run: Run, stage: int, context: DesignContext, _: GateDecision) -> dict[str, Any]:
    """What decides the answer of the engineer.

    Without the number of stages and how steps are split up: a run that is extended, or resumed after it ran
    out of memory, must not ask again.
    """
    preset, asked = run.preset, run.asked(stage)
    neutral = {"stages": 1, "training": training_facts(preset, without=SPLITTING)}
    return {
        "context": context.model_copy(update=neutral),
        "engineer": preset.effective_engineer().model_dump(mode="json"),
        "model": None if asked is None else [run.identity(asked), preset.chat_template_kwargs],
        "seed": preset.seed,
    }


@step("engineer", PROPOSAL, ENGINEER_STATE, decides=_asked)
def propose(run: Run, stage: int, context: DesignContext, gate: GateDecision) -> None:
    """Ask the engineer once for the next config: returns the `Proposal`."""
    proposal = _proposal(run, stage, context, gate)
    reason = proposal.fallback or proposal.rationale or "(no reason given)"
    log.info("stage %d: %s proposes: %s", stage, proposal.engineer, reason)
    for change in proposal.changes:
        log.info("stage %d: projection: %s", stage, change)
    run.write(PROPOSAL, proposal, stage)
    run.write(ENGINEER_STATE, proposal.state, stage)


def _proposal(run: Run, stage: int, context: DesignContext, gate: GateDecision) -> Proposal:
    preset, asked = run.preset, run.asked(stage)
    spec = preset.effective_engineer()

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
