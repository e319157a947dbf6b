"""Close a stage: manifest, results and report."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from prefect import task

from engineer.gate import BASE_POLICY
from engineer.spec import short_name
from envgen.errors import RunDirectoryError
from infra.config.settings import run_name
from infra.config.versions import code_version, library_versions, machine
from infra.results import CurriculumResults, Made, StageResult, TrainingSummary
from infra.runs import files
from infra.runs.files import File
from infra.runs.run import Run
from infra.runs.steps import read_records
from policy.evaluation import gains
from tasks.run import lost, task_options


@task(**task_options("manifest"))
def write_manifest(run: Run, stage: int) -> None:
    """Write the manifest, last of all: with it, and only with it, the stage is complete. A manifest of these
    very steps stays."""
    try:
        stored = run.read(files.MANIFEST, stage)
    except RunDirectoryError:
        stored = {}
    if any(stored.get(name) != value for name, value in _step_facts(run, stage).items()):
        run.write(files.MANIFEST, _manifest(run, stage), stage)


@task(**task_options("results"))
def publish(run: Run, stage: int) -> CurriculumResults:
    """Write results and report of the stages up to a complete one, from their directories; what is published
    stays."""
    results = results_with(run, stage)
    with suppress(RunDirectoryError):
        if run.has(files.REPORT) and run.read(files.RESULTS) == results:
            return results
    from infra.report.page import write_report  # what draws is loaded once there is something to draw

    run.write(files.RESULTS, results)
    try:
        write_report(run.directory)
    except Exception as error:
        lost(f"stage {stage}: report; `envwright report {run_name(run.directory)}` writes it again", error)
    return results


def _manifest(run: Run, number: int) -> dict[str, Any]:
    """What a stage is made of: keys, digests, seconds and tokens of its steps, and what led to its config."""
    proposal = run.read(files.PROPOSAL, number)
    followed = [file for file in (files.PROPOSAL, files.DECISION) if run.has(file, number - 1)]
    return {
        "curriculum": run.name,
        "stage": number,
        "seed": run.preset.seed,
        **_step_facts(run, number),
        "tokens": {
            "training": sum(run.read(files.TRAINING_LOG, number)["completion_tokens"]),
            **{purpose: _tokens(run, file, number) for purpose, file in _answers(run).items()},
            "engineer_prompt": proposal.prompt_tokens,
            "engineer_completion": proposal.completion_tokens,
        },
        "follows": {file.name: run.digest(file, number - 1) for file in followed},
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": code_version(),
        "machine": machine(),
        "libraries": library_versions(),
    }


def _step_facts(run: Run, number: int) -> dict[str, Any]:
    """What the manifest of a stage says of its steps: keys, digests, seconds and facts."""
    steps = read_records(run.folder(number))
    return {
        "keys": {step.step: step.key for step in steps},
        "files": {name: sha for step in steps for name, sha in step.outputs.items()},
        "seconds": {step.step: step.seconds for step in steps},
        **{name: fact for step in steps for name, fact in step.facts.items()},
    }


def results_with(run: Run, number: int) -> CurriculumResults:
    """The results of the stages up to `number`, and of the base policy."""
    preset = run.preset
    return CurriculumResults(
        curriculum=run.name,
        preset=preset.name,
        engineer=short_name(preset.engineer.name),
        context=preset.engineer.context,
        seed=preset.seed,
        start=run.read(files.BREAKDOWN, BASE_POLICY),
        test_start=run.test_breakdown(BASE_POLICY),
        start_made=Made(
            seconds=sum(record.seconds for record in read_records(run.folder(BASE_POLICY))),
            tokens=sum(_tokens(run, file, BASE_POLICY) for file in _answers(run).values()),
        ),
        stages=tuple(_stage_result(run, stage) for stage in range(number + 1)),
    )


def _answers(run: Run) -> dict[str, File[Any]]:
    """Return the rollouts that each stage has, by their purpose."""
    return {"evaluation": files.ROLLOUTS, **({"test": files.TEST_ROLLOUTS} if run.preset.test else {})}


def _tokens(run: Run, file: File[Any], stage: int) -> int:
    return sum(rollout.completion_tokens or 0 for rollout in run.read(file, stage))


def _stage_result(run: Run, stage: int) -> StageResult:
    manifest, rollouts = run.read(files.MANIFEST, stage), run.read(files.ROLLOUTS, stage)
    seconds, tokens = manifest["seconds"], manifest.get("tokens", {})
    samples = run.preset.evaluation.samples
    valid, optimal = gains(run.read(files.ROLLOUTS, BASE_POLICY), rollouts, samples)
    designed = gains(run.read(files.ROLLOUTS, 0), rollouts, samples) if stage else (None, None)
    return StageResult(
        stage=stage,
        config=run.read(files.CONFIG, stage),
        training=_training(run, stage),
        breakdown=run.read(files.BREAKDOWN, stage),
        test=run.test_breakdown(stage),
        valid_gain=valid,
        optimal_gain=optimal,
        designed_valid_gain=designed[0],
        designed_optimal_gain=designed[1],
        gate=run.read(files.GATE, stage),
        proposal=run.read(files.PROPOSAL, stage),
        decision=run.decision(stage),
        seconds=seconds,
        tokens=tokens,
        made=Made(
            finished=manifest.get("finished", ""),
            seconds=sum(seconds.values()),
            tokens=sum(filter(None, tokens.values())),
            code=tuple(filter(None, [manifest.get("code")])),
            machines=tuple(filter(None, [manifest.get("machine")])),
        ),
    )


def _training(run: Run, stage: int) -> TrainingSummary:
    log = run.read(files.TRAINING_LOG, stage)
    steps = len(log["step"])
    last = log["reward"][-max(1, steps // 5) :]
    return TrainingSummary(
        steps=steps,
        seconds=round(sum(log["seconds"]), 1),
        completion_tokens=sum(log["completion_tokens"]),
        mean_reward=sum(last) / len(last),
        zero_variance_share=sum(log["zero_variance"]) / steps,
        resumed=tuple(run.read(files.MANIFEST, stage).get(files.RESUMED, ())),
    )
