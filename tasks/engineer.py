"""Ask the engineer for the next environment config."""

from prefect import task

from engineer.context import DesignContext
from engineer.proposal import Candidate, Candidates, Proposal
from engineer.propose import design, fitted, kept
from envgen.config import EnvConfig
from infra.runs.context import design_context, training_facts
from infra.runs.data import possible
from infra.runs.run import RunRef
from infra.runs.stage import Stage
from infra.runs.steps import StepRecord, run_step
from policy.grpo.batches import SPLITTING
from tasks.run import engine, log, task_options

CHOOSING = {"pilot_score", "pilot_steps", "pilot_validation"}
"""Fields of the engineer's spec that decide between proposals, not what is proposed."""


@task(**task_options("engineer"))
def propose(run: RunRef, stage: int, breakdown: StepRecord, gate: StepRecord) -> StepRecord:
    """Write what the engineer proposes for the next stage. Drawn once; a repeated call finds it."""
    preset, files, context = run.preset, run.stage(stage), design_context(run, stage)

    def body() -> None:
        proposals = _proposals(run, stage, context)
        for number, proposal in enumerate(proposals, start=1):
            name = f"candidate {number}" if len(proposals) > 1 else proposal.engineer
            reason = proposal.fallback or proposal.rationale or "(no reason given)"
            log.info("stage %d: %s proposes: %s", stage, name, reason)
            for cut in proposal.cuts:
                log.info("stage %d: left out of the prompt: %s", stage, cut)
            for change in proposal.changes:
                log.info("stage %d: projection: %s", stage, change)
        drawn = tuple(Candidate(proposal=proposal, state=proposal.state) for proposal in proposals)
        files.write(Stage.candidates, Candidates(candidates=drawn))

    # Without the number of stages and how steps are split up: a run that is extended, or goes on after it ran
    # out of memory, must not redraw what was proposed.
    known = {"stages": 1, "training": training_facts(preset, without=SPLITTING)}
    decides = {
        "context": context.model_copy(update=known),
        "breakdown": breakdown.key,
        "gate": gate.key,
        "engineer": preset.effective_engineer().model_dump(mode="json", exclude=CHOOSING),
        "model": run.identity(asked) if (asked := run.asked(stage)) is not None else None,
        "seed": preset.seed,
    }
    return run_step(files.directory, "engineer", decides, (Stage.candidates.name,), body)


def _proposals(run: RunRef, stage: int, context: DesignContext) -> list[Proposal]:
    preset, files, asked = run.preset, run.stage(stage), run.asked(stage)
    spec, gate = preset.effective_engineer(), files.gate

    def fit(config: EnvConfig) -> tuple[EnvConfig, list[str]]:
        return possible(run, stage + 1, config)

    if gate.action != "go-on":
        config = run.config_of(gate.against)
        return [fitted(kept(spec, context, config, f"by the gate: {gate.reason}"), config, fit)]
    model = None if asked is None else engine(run.policy(asked), preset.engine, files.log("engine"))
    return [
        design(spec, context, preset.seed, model, fit, candidate)
        for candidate in range(preset.engineer.candidates)
    ]
