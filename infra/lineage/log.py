"""Log stages and comparisons to MLflow: a run for a curriculum, nested runs for its stages, a model for each
checkpoint.

A stage whose `mlflow.json` names the curriculum's run and the digest of its manifest is logged. Any other is
logged anew, and what an earlier or interrupted call left of it is deleted."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import mlflow
from mlflow import MlflowClient
from mlflow.data.meta_dataset import MetaDataset
from mlflow.data.sources import LocalArtifactDatasetSource  # type: ignore[attr-defined]
from mlflow.entities import LoggedModelInput, LoggedModelOutput
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NOTE

from engineer.gate import BASE_POLICY
from envgen.environment import Space
from envgen.files import write_json
from envgen.frozen import Frozen
from infra.analysis.spec import SHARED, engineer_variant
from infra.config.preset import Preset
from infra.config.settings import Settings
from infra.lineage.store import (
    IDS,
    Points,
    RunIds,
    connect,
    ensure_run,
    experiment_id,
    log_points,
    metric_name,
    preset_params,
    read_ids,
    server_address,
    view_address,
)
from infra.lineage.traces import log_trace
from infra.runs.files import (
    BREAKDOWN,
    CONFIG,
    GATE,
    MANIFEST,
    PROPOSAL,
    REPORT,
    RESULTS,
    ROLLOUTS,
    TRAIN_DATA,
    TRAINING_LOG,
    VALIDATION,
    File,
)
from infra.runs.run import Run, RunRef
from policy.rollouts import Rollout

_SERIES = ("reward", "valid", "optimal", "zero_variance", "entropy", "clipped", "mismatch", "mismatch_max")
_ARTIFACTS = (CONFIG, BREAKDOWN, GATE, PROPOSAL, MANIFEST)


class StageIds(Frozen):
    """Ids of a stage in MLflow."""

    parent: str
    """Run of its curriculum."""
    manifest: str
    """Digest of the manifest that was logged; of the rollouts for the base policy."""
    run: str
    model: str


def log_stages(run: RunRef, stage: int) -> dict[str, str]:
    """Log a curriculum up to a stage; return where the MLflow UI shows it, by name."""
    client = connect()
    root = _curriculum(client, run)
    ids: dict[int, StageIds] = {}
    for number in range(BASE_POLICY, stage + 1):
        ids[number] = _logged(run, number, root) or _log_stage(client, run, number, root, ids)
    for file in (RESULTS, REPORT):
        client.log_artifact(root.run, str(run.path(file)))
    client.set_terminated(root.run, "FINISHED", _span(run, stage)[1])
    server = server_address()
    if server is None:
        return {"MLflow run": root.run}
    experiment = f"{server}/#/experiments/{root.experiment}"
    return {
        "report in MLflow": f"{experiment}/runs/{root.run}/artifacts/report.html",
        "last stage in MLflow": f"{experiment}/runs/{ids[stage].run}",
        "arms in MLflow, as a chart": f"{server}/{view_address(root.experiment)}",
    }


def comparison_run(directory: Path, name: str, params: dict[str, str], preset: str) -> RunIds:
    """Return the ids of a comparison's run, which is created if it is new."""
    client = connect()
    tags = {"preset": preset, "level": "comparison"}
    return ensure_run(client, directory, experiment_id(client, name), name, tags, params)


def log_comparison(ids: RunIds, points: Points, note: str, artifacts: list[Path]) -> None:
    """Log the metrics, the conclusion as a note, and the files of a finished comparison.

    A comparison that is called again gets no second point where nothing changed.
    """
    client = connect()
    for name, series in points.items():
        logged = {metric.step: metric.value for metric in client.get_metric_history(ids.run, name)}
        changed = [(step, value) for step, value in series if logged.get(step) != value]
        log_points(client, ids.run, {name: changed})
    client.set_tag(ids.run, MLFLOW_RUN_NOTE, note)
    for path in artifacts:
        client.log_artifact(ids.run, str(path))
    client.set_terminated(ids.run)


def scores(space: Space, rollouts: list[Rollout]) -> dict[str, float]:
    """Return the rates of an evaluation: of all rollouts, by stratum, and by whether an instance has a label.

    Names are `valid`, `valid/STRATUM`, `valid/with-LABEL`, `valid/without-LABEL`; `optimal` likewise, for
    environments in which some valid answers are better than others.
    """
    groups: dict[str, list[Rollout]] = {"": rollouts}
    labels = [knob.label.name for knob in space.asked if knob.label]
    for rollout in rollouts:
        names = [f"/{'with' if label in rollout.instance.labels else 'without'}-{label}" for label in labels]
        for name in (f"/{space.label(rollout.instance.stratum)}", *names):
            groups.setdefault(metric_name(name), []).append(rollout)
    rates = {}
    for group, members in groups.items():
        rates[f"valid{group}"] = sum(rollout.verdict.valid for rollout in members) / len(members)
        if space.best:
            rates[f"optimal{group}"] = sum(rollout.verdict.optimal for rollout in members) / len(members)
    return rates


def _curriculum(client: MlflowClient, run: RunRef) -> RunIds:
    """Return the ids of the run of a curriculum, which is created if it is new."""
    above, columns = Settings().parent_run, _columns(run.preset)
    tags, level = {MLFLOW_PARENT_RUN_ID: above} if above else {}, "curriculum"
    if above and run.name in (SHARED, f"{SHARED}-s{run.preset.seed}"):
        level = "shared stage"
    experiment = client.get_run(above).info.experiment_id if above else experiment_id(client, run.preset.name)
    tags, params = {"level": level, **columns, **tags}, columns | preset_params(run.preset)
    return ensure_run(client, run.directory, experiment, run.name, tags, params, _span(run, 0)[0])


def _columns(preset: Preset) -> dict[str, str]:
    """Return what runs are compared by."""
    engineer = preset.engineer
    return {
        "engineer variant": engineer_variant(engineer),
        "engineer": engineer.name,
        "seed": str(preset.seed),
        "preset": preset.name,
    }


def _manifest(run: Run, number: int) -> str:
    return run.digest(ROLLOUTS if number == BASE_POLICY else MANIFEST, number)


def _logged(run: Run, number: int, root: RunIds) -> StageIds | None:
    """Return the ids of a stage if it is logged as it is now, below this run of the curriculum."""
    ids = read_ids(run.folder(number), StageIds)
    current = ids and ids.parent == root.run and ids.manifest == _manifest(run, number)
    return ids if current else None


def _log_stage(
    client: MlflowClient, run: RunRef, number: int, root: RunIds, earlier: Mapping[int, StageIds]
) -> StageIds:
    """Log the evaluation of the base policy, or a stage, as a run below the run of the curriculum."""
    _delete_earlier(client, number, root)
    started, ended = _span(run, number)
    columns = {**_columns(run.preset), "stage": str(number), "curriculum": run.name}
    parent = None if number == BASE_POLICY else earlier[run.parent(number)]
    level = "stage" if parent else "start"
    name = f"stage {number} · {columns['engineer variant']}" if parent else "base policy"
    tags = {**columns, "level": level, MLFLOW_PARENT_RUN_ID: root.run}
    child = client.create_run(root.experiment, started, tags, name).info.run_id
    rates = scores(run.preset.space, run.read(ROLLOUTS, number))
    validation = _dataset(run, VALIDATION, f"{run.preset.name}-validation")
    with mlflow.start_run(run_id=child):
        mlflow.log_params(columns)
        model = mlflow.create_external_model(
            name=re.sub(r"[/:.%\"']", "-", f"{run.name}-{level}-{number}"),
            experiment_id=root.experiment,
            model_type="checkpoint",
            tags=_facts(run, number, parent),
        )
        mlflow.log_outputs([LoggedModelOutput(model.model_id, max(number, 0))])
        mlflow.log_metrics(rates, step=number + 1, model_id=model.model_id, dataset=validation)
        mlflow.log_input(validation, "validation")
        if parent:
            _log_training(client, run, number, child, parent)
    if parent and (proposal := run.read(PROPOSAL, number)).prompt:
        models = {stage: ids.model for stage, ids in earlier.items()} | {number: model.model_id}
        asked = run.asked(number)
        log_trace(proposal, root.experiment, child, None if asked is None else models[asked], columns)
    log_points(client, root.run, {rate: [(number + 1, value)] for rate, value in rates.items()})
    client.set_terminated(child, "FINISHED", ended)
    ids = StageIds(parent=root.run, manifest=_manifest(run, number), run=child, model=model.model_id)
    write_json(run.folder(number) / IDS, ids)
    return ids


def _log_training(client: MlflowClient, run: RunRef, number: int, child: str, parent: StageIds) -> None:
    """Log what a stage trained on, how its training went, and its files."""
    data = _dataset(run, TRAIN_DATA, f"{run.name}-stage-{number:02d}", number)
    mlflow.log_input(data, "training", model=LoggedModelInput(parent.model))
    log = run.read(TRAINING_LOG, number)
    series = {name: zip(log["step"], log[name], strict=True) for name in _SERIES}
    points = {
        f"train/{name}": [(step, value) for step, value in values if value is not None]
        for name, values in series.items()
    }
    log_points(client, child, points)
    for file in _ARTIFACTS:
        client.log_artifact(child, str(run.path(file, number)))


def _delete_earlier(client: MlflowClient, number: int, root: RunIds) -> None:
    """Delete the runs, models and traces of earlier logs of a stage."""
    below = f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{root.run}' AND tags.stage = '{number}'"
    for earlier in client.search_runs([root.experiment], below):
        run = earlier.info.run_id
        for output in earlier.outputs.model_outputs if earlier.outputs else []:
            client.delete_logged_model(output.model_id)
        traces = client.search_traces(
            [root.experiment], filter_string=f"metadata.`mlflow.sourceRun` = '{run}'", include_spans=False
        )
        if traces:
            client.delete_traces(root.experiment, trace_ids=[trace.info.trace_id for trace in traces])
        client.delete_run(run)


def _facts(run: RunRef, number: int, parent: StageIds | None) -> dict[str, str]:
    """Return the tags of a checkpoint: what it is, and the digests of what it was made from."""
    policy = run.policy(number)
    facts = {
        "curriculum": run.name,
        "stage": str(number),
        "digest": run.identity(number),
        "path": str(Path(policy).resolve()) if Path(policy).is_dir() else policy,
        "validation_digest": run.digest(VALIDATION),
        **_columns(run.preset),
    }
    if parent is None:
        return facts
    return facts | {
        "dataset_digest": run.digest(TRAIN_DATA, number),
        "config_digest": run.digest(CONFIG, number),
        "gate": run.read(GATE, number).action,
        "parent": parent.model,
    }


def _dataset(run: Run, file: File, name: str, stage: int | None = None) -> MetaDataset:
    source = LocalArtifactDatasetSource(run.path(file, stage).resolve().as_uri())
    return MetaDataset(source, name=name, digest=run.digest(file, stage)[:36])


def _span(run: RunRef, number: int) -> tuple[int | None, int | None]:
    """Return when a stage began and ended, in milliseconds since 1970; None if unknown."""
    manifest = {} if number == BASE_POLICY else run.read(MANIFEST, number)
    if not manifest.get("finished"):
        return None, None
    ended = datetime.fromisoformat(manifest["finished"]).timestamp()
    return round(1000 * (ended - sum(manifest["seconds"].values()))), round(1000 * ended)
