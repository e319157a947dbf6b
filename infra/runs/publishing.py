"""What a finished stage adds to its manifest and to the results of its run."""

from datetime import UTC, datetime
from typing import Any

from engineer.behaviour import proposal_behaviour
from infra.config.versions import code_version, library_versions, machine
from infra.runs.results import CurriculumResults, StageResult, TrainingSummary
from infra.runs.run import RunRef
from infra.runs.stage import Stage
from infra.runs.steps import StepRecord, read_record
from policy.evaluation import gains


def manifest(run: RunRef, number: int, steps: list[StepRecord]) -> dict[str, Any]:
    """What a stage is made of: keys, digests, seconds and tokens of its steps, and what led to its config."""
    stage, before = run.stage(number), run.stage(number - 1)
    proposal = stage.proposal
    followed = [file for file in (Stage.proposal, Stage.decided) if before.has(file)]
    return {
        "curriculum": run.name,
        "stage": number,
        "seed": run.preset.seed,
        **step_facts(steps),
        "tokens": {
            "training": sum(stage.train_log["completion_tokens"]),
            "evaluation": sum(rollout.completion_tokens for rollout in stage.rollouts),
            "engineer_prompt": proposal.prompt_tokens,
            "engineer_completion": proposal.completion_tokens,
        },
        "follows": {file.name: before.digest(file) for file in followed},
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": code_version(),
        "machine": machine(),
        "libraries": library_versions(),
    }


def step_facts(steps: list[StepRecord]) -> dict[str, Any]:
    """What the manifest of a stage says of its steps: keys, digests, seconds and facts."""
    return {
        "keys": {step.step: step.key for step in steps},
        "files": {name: sha for step in steps for name, sha in step.outputs.items()},
        "seconds": {step.step: step.seconds for step in steps},
        **{name: fact for step in steps for name, fact in step.facts.items()},
    }


def results_with(run: RunRef, number: int) -> CurriculumResults:
    """The published results of the stages before `number`, and that stage."""
    preset, earlier = run.preset, run.results.stages[:number] if number else ()
    evaluated = read_record(run.start.directory, "start")
    # A person decides on a proposal after its stage was published.
    decided = [one.model_copy(update={"decision": run.stage(one.stage).decision}) for one in earlier]
    return CurriculumResults(
        curriculum=run.name,
        preset=preset.name,
        engineer=preset.engineer.name,
        variant=preset.engineer.variant,
        seed=preset.seed,
        start=run.start.breakdown,
        start_seconds=evaluated.seconds if evaluated else 0.0,
        start_tokens=sum(rollout.completion_tokens for rollout in run.start.rollouts),
        stages=(*decided, _stage_result(run, number)),
    )


def _stage_result(run: RunRef, number: int) -> StageResult:
    stage, parent, made = run.stage(number), run.parent(number), run.stage(number).manifest
    valid, optimal = gains(run.start.rollouts, stage.rollouts)
    return StageResult(
        stage=number,
        parent=parent,
        config=stage.config,
        training=_training(stage),
        breakdown=stage.breakdown,
        valid_gain=valid,
        optimal_gain=optimal,
        gate=stage.gate,
        proposal=stage.proposal,
        decision=stage.decision,
        behaviour=proposal_behaviour(stage.config, stage.proposal.config, stage.breakdown),
        seconds=made["seconds"],
        tokens=made.get("tokens", {}),
        finished=made.get("finished", ""),
        code=made.get("code", ""),
        machine=made.get("machine", ""),
    )


def _training(stage: Stage) -> TrainingSummary:
    log = stage.train_log
    steps = len(log["step"])
    last = log["reward"][-max(1, steps // 5) :]
    return TrainingSummary(
        steps=steps,
        seconds=round(sum(log["seconds"]), 1),
        completion_tokens=sum(log["completion_tokens"]),
        mean_reward=sum(last) / len(last),
        zero_variance_share=sum(log["zero_variance"]) / steps,
        resumed=stage.resumed,
    )
