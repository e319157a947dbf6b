"""Close a stage: manifest, lineage, `results.json` and the report."""

from pathlib import Path

from prefect import task

from engineer.behaviour import proposal_behaviour
from engineer.gate import START
from engineer.proposal import Proposal
from envgen.files import file_digest, write_json
from infra.decision import read_decision
from infra.lineage import DataSetRef, Recorder, flat
from infra.preset import resolved_json
from infra.report.build import write_report
from infra.results import CurriculumResults, StageResult, TrainingSummary
from infra.run_directory import Curriculum
from infra.settings import Settings
from infra.steps import StepRecord
from infra.versions import code_version, library_versions
from policy.checkpoints import model_identity
from policy.evaluation import gains, valid_gains
from policy.rollouts import Rollout, read_rollouts
from policy.train_log import read_train_log
from tasks.design import CANDIDATES, read_candidates, read_proposal
from tasks.gate import config_of
from tasks.learn import ROLLOUTS, read_breakdown
from tasks.pilot import PILOT, read_pilots
from tasks.run import GATE, RunRef, log, parent_stage, read_gate, task_options

MANIFEST = "manifest.json"
_UNRECORDED = ".unrecorded"
"""In the directory of a stage that MLflow does not know yet."""


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
        "code": code_version(),
        "libraries": library_versions(),
    }
    write_json(directory / MANIFEST, manifest)


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
            config_of(run, parent) if number else None, config, proposal.config, breakdown, gains(before, after)[0], valid_gains(before, after)
        ),
        seconds={step.step: step.seconds for step in steps},
    )


def _rejected(run: RunRef, stage: int, chosen: Proposal) -> tuple[Proposal, ...]:
    """The other candidates; one that is equal to the chosen one was paid for too."""
    proposals = [candidate.proposal for candidate in read_candidates(run, stage).candidates]
    proposals.remove(chosen)
    return tuple(proposals)


@task(**task_options("lineage"))
def record_lineage(run: RunRef, curriculum: Curriculum, stage: int) -> None:
    """Record a finished stage in MLflow. If MLflow cannot be reached the run goes on, and the next resume records it."""
    settings, marker = Settings(), run.stage(stage) / _UNRECORDED
    marker.touch()
    try:
        recorder = Recorder(settings.tracking_uri, settings.runs / "mlartifacts")
        _record(recorder, run, curriculum, stage)
        marker.unlink()
    except Exception as error:  # a lost record is not worth a lost run
        log.warning("stage %d: lineage not recorded at %s: %s; run the same command again to record it", stage, settings.tracking_uri, error)


def unrecorded(directory: Path) -> bool:
    """Whether MLflow lacks a finished stage of a run directory."""
    return any(directory.glob(f"stage-*/{_UNRECORDED}"))


def _record(recorder: Recorder, run: RunRef, curriculum: Curriculum, stage: int) -> None:
    preset, directory = run.preset, run.stage(stage)
    under = Settings().parent_run
    key = f"{curriculum.preset_digest[:16]}-{under + '-' if under else ''}{run.name}"
    tags = {"preset": preset.name, "designer": preset.design.designer, "variant": preset.design.variant, "seed": str(preset.seed)}
    root = recorder.run(key, run.name, parent=under, tags={**tags, "level": "curriculum"}, params=flat(resolved_json(preset)))
    child = recorder.run(
        f"{key}-stage-{stage}", f"stage {stage} · {preset.design.variant} · {preset.design.designer}", parent=root, tags={**tags, "level": "stage"}
    )
    train = DataSetRef(name=f"{run.name}-stage-{stage:02d}", path=directory / "train.parquet", digest=file_digest(directory / "train.parquet"))
    validation = DataSetRef(name=f"{preset.name}-validation", path=run.validation, digest=file_digest(run.validation))
    recorder.dataset(child, train, "training")
    recorder.dataset(child, validation, "validation")
    models: dict[int, str] = {}
    for number in range(START, stage + 1):
        parent = None if number == START else models[parent_stage(run, number)]
        models[number] = _record_checkpoint(recorder, run, root, child, key, number, parent)
    model_id = models[stage]
    scores = _scores(run, stage)
    recorder.scores(child, model_id, validation, scores, stage)
    recorder.tag(child, "gate", read_gate(run, stage).action)
    log_table = read_train_log(directory / "train_log.parquet")
    recorder.metrics(
        child,
        {f"train/{name}": list(zip(log_table["step"], log_table[name], strict=True)) for name in ("reward", "valid", "optimal", "zero_variance", "entropy")},
    )
    recorder.metrics(root, {name: [(stage, value)] for name, value in scores.items()})
    for name in ("config.json", "breakdown.json", GATE, CANDIDATES, PILOT, "proposal.json", MANIFEST):
        recorder.artifact(child, directory / name)
    for name in ("results.json", "report.html"):
        recorder.artifact(root, run.directory / name)
    recorder.finish(child)
    recorder.finish(root)


def _record_checkpoint(recorder: Recorder, run: RunRef, root: str, child: str, key: str, number: int, parent: str | None) -> str:
    """The model id of a stage's checkpoint, or of the start policy (-1); ancestors are found, only the last is new."""
    if number == START:
        source = Path(run.policy(START))
        return recorder.checkpoint(
            root, f"start-{model_identity(str(source))[:32]}", f"start-{source.name}", source, parent=None, step=0, tags={"model": run.preset.model}
        )
    directory = run.stage(number)
    proposal = read_proposal(run, number - 1) if number else None
    tags = {
        "stage": str(number),
        "config": file_digest(directory / "config.json"),
        "dataset": file_digest(directory / "train.parquet"),
        "proposal": file_digest(run.stage(number - 1) / "proposal.json") if number else "default config",
        "designer": proposal.designer if proposal else "default config",
        "variant": proposal.variant if proposal else "",
    }
    stage_run = recorder.run(f"{key}-stage-{number}", "", parent=root)
    return recorder.checkpoint(
        stage_run,
        f"{key}-checkpoint-{number}",
        f"{run.name}-stage-{number:02d}",
        directory / "checkpoint",
        parent=parent,
        step=number,
        tags={f"envwright.{name}": value for name, value in tags.items()},
    )


def _scores(run: RunRef, stage: int) -> dict[str, float]:
    breakdown = read_breakdown(run.stage(stage))
    scores = {"valid": breakdown.overall.valid_rate.value, "optimal": breakdown.overall.optimal_rate.value}
    for size, counts in breakdown.sizes.items():
        scores |= {f"valid/{size}x{size}": counts.valid_rate.value, f"optimal/{size}x{size}": counts.optimal_rate.value}
    return scores


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
