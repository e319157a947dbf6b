"""Record a finished stage in MLflow."""

from pathlib import Path

from prefect import task

from engineer.gate import START
from envgen.files import file_digest
from infra.lineage import DataSetRef, Recorder, flat
from infra.preset import resolved_json
from infra.run_directory import Curriculum
from infra.settings import Settings
from policy.checkpoints import model_identity
from policy.train_log import read_train_log
from tasks.design import CANDIDATES, read_proposal
from tasks.learn import read_breakdown
from tasks.pilot import PILOT
from tasks.publish import MANIFEST
from tasks.run import GATE, RunRef, log, parent_stage, read_gate, task_options

_UNRECORDED = ".unrecorded"
"""In the directory of a stage that MLflow does not know yet."""


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
