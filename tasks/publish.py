"""Close a stage: manifest, `results.json` and the report."""

from prefect import task

from engineer.behaviour import proposal_behaviour
from engineer.proposal import Proposal
from envgen.files import file_digest, write_json
from infra.report.build import write_report
from infra.runs.decision import DECISION, PROPOSAL, read_decision
from infra.runs.results import CurriculumResults, StageResult, TrainingSummary
from infra.runs.steps import StepRecord
from infra.versions import code_version, library_versions
from policy.evaluation import gains, valid_gains
from policy.rollouts import Rollout, read_rollouts
from policy.train_log import read_train_log
from tasks.design import read_candidates, read_proposal
from tasks.gate import config_of
from tasks.learn import ROLLOUTS, read_breakdown
from tasks.pilot import read_pilots
from tasks.run import RunRef, parent_stage, read_gate, task_options

MANIFEST = "manifest.json"


@task(**task_options("manifest"))
def write_manifest(run: RunRef, stage: int, steps: list[StepRecord]) -> None:
    """Write `manifest.json`, last of all: with it, and only with it, the stage is complete."""
    directory = run.stage(stage)
    if (directory / MANIFEST).exists() and all(step.reused for step in steps):
        return
    rollouts = read_rollouts(directory / ROLLOUTS)
    proposals = [candidate.proposal for candidate in read_candidates(run, stage).candidates]
    pilots = [piloted.score for piloted in read_pilots(run, stage).pilots if piloted.score]
    manifest = {
        "curriculum": run.name,
        "stage": stage,
        "seed": run.preset.seed,
        "keys": {step.step: step.key for step in steps},
        "files": {name: sha for step in steps for name, sha in step.outputs.items()},
        "seconds": {step.step: step.seconds for step in steps},
        "tokens": {
            "training": _training(run, stage).completion_tokens,
            "evaluation": sum(r.completion_tokens for r in rollouts),
            "engineer_prompt": sum(proposal.prompt_tokens for proposal in proposals),
            "engineer_completion": sum(proposal.completion_tokens for proposal in proposals),
            "pilot": sum(score.completion_tokens for score in pilots),
        },
        "follows": _follows(run, stage - 1) if stage else {},
        "code": code_version(),
        "libraries": library_versions(),
    }
    write_json(directory / MANIFEST, manifest)


def _follows(run: RunRef, stage: int) -> dict[str, str]:
    """Digests of what led to the config of the stage after `stage`: the proposal, and a person's decision if there is one."""
    return {name: file_digest(run.stage(stage) / name) for name in (PROPOSAL, DECISION) if (run.stage(stage) / name).exists()}


@task(**task_options("results"))
def publish(run: RunRef, stages_done: int, steps: dict[int, list[StepRecord]]) -> CurriculumResults:
    """Rewrite `results.json` and `report.html` from all finished stages."""
    preset = run.preset
    start = read_rollouts(run.start / ROLLOUTS)
    stages = [_stage_result(run, number, start, steps[number]) for number in range(stages_done)]
    results = CurriculumResults(
        curriculum=run.name,
        preset=preset.name,
        designer=preset.design.designer,
        variant=preset.design.variant,
        seed=preset.seed,
        start=read_breakdown(run.start),
        stages=tuple(stages),
    )
    write_json(run.directory / "results.json", results)
    write_report(run.directory)
    return results


def _stage_result(run: RunRef, number: int, start: list[Rollout], steps: list[StepRecord]) -> StageResult:
    """The result of a stage; `start` is the evaluation of the start policy."""
    parent = parent_stage(run, number)
    before, after = (read_rollouts(run.evaluation(stage) / ROLLOUTS) for stage in (parent, number))
    valid, optimal = gains(start, after)
    config, breakdown, proposal = config_of(run, number), read_breakdown(run.stage(number)), read_proposal(run, number)
    return StageResult(
        stage=number,
        parent=parent,
        config=config,
        training=_training(run, number),
        breakdown=breakdown,
        valid_gain=valid,
        optimal_gain=optimal,
        gate=read_gate(run, number),
        pilots=read_pilots(run, number).pilots,
        proposal=proposal,
        decision=read_decision(run.stage(number)),
        rejected=_rejected(run, number, proposal),
        behaviour=proposal_behaviour(
            config_of(run, parent) if number else None,
            config,
            proposal.config,
            breakdown,
            gains(before, after)[0],
            valid_gains(before, after),
            proposal.rationale,
        ),
        seconds={step.step: step.seconds for step in steps},
    )


def _rejected(run: RunRef, stage: int, chosen: Proposal) -> tuple[Proposal, ...]:
    """The other candidates; one that is equal to the chosen one was paid for too."""
    proposals = [candidate.proposal for candidate in read_candidates(run, stage).candidates]
    proposals.remove(chosen)
    return tuple(proposals)


def _training(run: RunRef, stage: int) -> TrainingSummary:
    columns = read_train_log(run.stage(stage) / "train_log.parquet")
    steps = len(columns["step"])
    last = columns["reward"][-max(1, steps // 5) :]
    return TrainingSummary(
        steps=steps,
        seconds=round(sum(columns["seconds"]), 1),
        completion_tokens=sum(columns["completion_tokens"]),
        mean_reward=sum(last) / len(last),
        zero_variance_share=sum(columns["zero_variance"]) / steps,
    )
