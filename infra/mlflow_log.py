"""Log curricula and comparisons to MLflow, which is a record and never the source of truth.

A preset or comparison is an experiment, a curriculum a run, a stage a run below it with the model of its
checkpoint and the trace of its design call. `mlflow.json` holds the ids; a stage done again has a new run."""

import json
import logging
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

# Read when mlflow is imported: a server that is down costs seconds, not minutes.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
os.environ.setdefault("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")

import mlflow
from mlflow import MlflowClient
from mlflow.data.meta_dataset import MetaDataset
from mlflow.data.sources import LocalArtifactDatasetSource  # type: ignore[attr-defined]
from mlflow.entities import LiveSpan, LoggedModelInput, LoggedModelOutput, Metric, Param, SpanType
from mlflow.exceptions import MlflowException
from mlflow.tracing.constant import SpanAttributeKey, TraceMetadataKey
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NOTE
from pydantic import ValidationError

from engineer.contract import Proposal
from engineer.engineers.registry import engineer_label
from engineer.gate import BASE_POLICY
from envgen.breakdown import Breakdown
from envgen.environment import Space
from envgen.files import write_json
from envgen.frozen import Frozen
from infra.config.dotted import leaves
from infra.config.settings import Settings, without_password
from infra.formats import rate_names
from infra.runs import files
from infra.runs.fork import SHARED
from infra.runs.run import Run
from policy.grpo.train_log import SERIES, stratum_series

IDS = "mlflow.json"
Texts = dict[str, str]
Points = dict[str, list[tuple[int, float]]]
"""Name of a metric -> (step, value)."""
_ARTIFACTS = (files.CONFIG, files.BREAKDOWN, files.GATE, files.PROPOSAL, files.MANIFEST)


class Ids(Frozen):
    """Ids in MLflow of a curriculum, a comparison or a stage; `parent` is the run of the curriculum."""

    experiment: str
    run: str
    parent: str = ""
    model: str = ""
    manifest: str = ""
    """Digest of the manifest, of the rollouts for the base policy; empty until the whole stage is logged."""


def connect() -> MlflowClient:
    """Return a client of the configured store, which the rest of this process uses too."""
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    mlflow.set_tracking_uri(Settings().tracking_uri)
    return MlflowClient()


def is_logged(directory: Path) -> bool:
    """Whether every complete stage of a run directory was logged."""
    complete = [path.parent for path in directory.glob(f"stage-*/{files.MANIFEST.name}")]
    return all((ids := _read_ids(folder)) and ids.manifest for folder in complete)


def start_curriculum(run: Run) -> None:
    """Mark the run of a curriculum as running; it is created if it is new."""
    client = connect()
    client.update_run(_curriculum(client, run).run, status="RUNNING")


def start_stage(run: Run, number: int) -> Ids | None:
    """Log the stages before a stage, and return the ids of its run; None if the curriculum has no run."""
    if (root := _read_ids(run.directory)) is None:
        return None
    client = connect()
    _log_until(client, run, number - 1, root)
    ids = _stage_run(client, run, number, root)
    client.update_run(ids.run, status="RUNNING")  # it may have failed before
    return ids


def log_progress(ids: Ids, space: Space, entries: list[dict[str, Any]]) -> Ids:
    """Log progress entries of the trainer to the run of a stage; return its ids."""
    points = {
        f"train/{name}": [(entry["step"], entry[key]) for entry in entries if key in entry]
        for name, key in SERIES.items()
    }
    rows = ((entry["step"], entry["strata"]) for entry in entries)
    _log_points(connect(), ids.run, points | stratum_series(space, rows))
    return ids


def log_stages(run: Run, stage: int) -> Texts:
    """Log a curriculum up to a complete stage; return where the MLflow UI shows it, by name."""
    client = connect()
    root = _curriculum(client, run)
    _log_until(client, run, stage, root)
    for file in (files.RESULTS, files.REPORT):
        client.log_artifact(root.run, str(run.path(file)))
    client.set_terminated(root.run)
    if (server := server_address()) is None:
        return {"MLflow run": root.run}
    page = f"{server}/#/experiments/{root.experiment}/runs/{root.run}"
    return {"run in MLflow": page, "arms in MLflow, as a chart": f"{server}/{view_address(root.experiment)}"}


def end_runs(run: Run, status: str) -> None:
    """Give this status to the runs of a curriculum and its stages that are still running."""
    client = connect()
    for folder in (run.directory, *run.directory.glob("stage-*")):
        ids = _read_ids(folder)
        if ids and not ids.manifest and client.get_run(ids.run).info.status == "RUNNING":
            client.set_terminated(ids.run, status)


def start_trace(run: Run, stage: int) -> LiveSpan | None:
    """Start the trace of the design call after a stage; None if the curriculum has no run."""
    ids = start_stage(run, stage)
    return ids and mlflow.start_span_no_context(
        f"design stage {stage + 1}",
        SpanType.AGENT,
        tags=_columns(run),
        metadata={TraceMetadataKey.SOURCE_RUN: ids.run},
        experiment_id=ids.experiment,
    )


def end_trace(span: LiveSpan, proposal: Proposal) -> None:
    """End the trace of a design call with the prompt, the answers, their tokens and the proposal."""
    if proposal.prompt_tokens is not None and proposal.completion_tokens is not None:
        counts = {"input_tokens": proposal.prompt_tokens, "output_tokens": proposal.completion_tokens}
        span.set_attribute(SpanAttributeKey.CHAT_USAGE, counts | {"total_tokens": sum(counts.values())})
    span.set_inputs({"messages": [{"role": "user", "content": proposal.prompt}]})
    status = "ERROR" if proposal.fallback else "OK"
    span.end(proposal.model_dump(mode="json", exclude={"prompt"}), status=status)


def start_comparison(directory: Path, name: str, preset: str) -> Ids:
    """Return the ids of the run of a comparison, which is created if it is new."""
    client = connect()
    tags, experiment = {"preset": preset, "level": "comparison"}, _experiment(client, name)
    return _run_of(client, directory, name, tags, {}, experiment=experiment)


def log_comparison(ids: Ids, note: str, artifacts: list[Path]) -> None:
    """Log the conclusion as a note, and the files of a finished comparison."""
    client = connect()
    client.set_tag(ids.run, MLFLOW_RUN_NOTE, note)
    for path in artifacts:
        client.log_artifact(ids.run, str(path))
    client.set_terminated(ids.run)


def view_address(experiment: str) -> str:
    """Return the address of the view of arms, to be put after the address of the server."""
    query = "workflowType=machine_learning&viewStateShareKey=arms&compareRunsMode=CHART"
    return f"#/experiments/{experiment}/runs?{query}"


def server_address() -> str | None:
    """Return the address of the MLflow server; None without a server."""
    uri = without_password(Settings().tracking_uri)
    return uri.rstrip("/") if uri.startswith("http") else None


def _read_ids(folder: Path) -> Ids | None:
    try:
        return Ids.model_validate_json((folder / IDS).read_bytes())
    except (OSError, ValidationError):
        return None


def _run_of(client: MlflowClient, folder: Path, name: str, tags: Texts, params: Texts, **ids: str) -> Ids:
    """Return the ids in a folder if they include `ids` and the store has their run; else create the run."""
    if (stored := _read_ids(folder)) and stored == stored.model_copy(update=ids):
        with suppress(MlflowException):
            if client.get_run(stored.run).info.lifecycle_stage == "active":
                return stored
    run = client.create_run(ids["experiment"], None, tags, name).info.run_id
    client.log_batch(run, params=[Param(name, value) for name, value in params.items()])
    return _write_ids(folder, Ids(run=run, **ids))


def _write_ids(folder: Path, ids: Ids, **fields: str) -> Ids:
    write_json(folder / IDS, changed := ids.model_copy(update=fields))
    return changed


def _experiment(client: MlflowClient, name: str) -> str:
    """Return the id of the experiment of a preset or comparison. A new one gets a saved view with a line for
    the mean of each arm, whose state in the UI is `arms_view.json`."""
    name, settings = f"envwright/{name}", Settings()
    if experiment := client.get_experiment_by_name(name):
        return experiment.experiment_id
    view = Path(__file__).with_name("arms_view.json").read_text()
    tags = {"mlflow.sharedViewState.arms": view, "mlflow.experimentKind": "custom_model_development"}
    local = None if settings.tracking_uri.startswith("http") else settings.runs.resolve() / "mlartifacts"
    created = client.create_experiment(name, local and local.as_uri(), tags=tags)
    link = f"[Rates by stage, a line for each arm]({view_address(created)})"
    client.set_experiment_tag(created, MLFLOW_RUN_NOTE, link)
    return created


def _curriculum(client: MlflowClient, run: Run) -> Ids:
    """Return the ids of the run of a curriculum, which is created if it is new."""
    above, fields = Settings().parent_run, leaves({"preset": run.preset.model_dump(mode="json")})
    params = {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
    shared = above and run.name.startswith(SHARED)
    parent = {MLFLOW_PARENT_RUN_ID: above} if above else {}
    tags = {"level": "shared stage" if shared else "curriculum", **parent}
    experiment = client.get_run(above).info.experiment_id if above else _experiment(client, run.preset.name)
    params |= _columns(run)
    return _run_of(client, run.directory, run.name, tags, params, experiment=experiment)


def _columns(run: Run) -> Texts:
    """Return what runs are compared by: in a comparison the arm, else the engineer."""
    preset = run.preset
    engineer = engineer_label(preset.engineer.name, preset.engineer.context)
    arm = run.name.removesuffix(f"-s{preset.seed}") if Settings().parent_run else engineer
    return {"arm": arm, "seed": str(preset.seed), "preset": preset.name}


def _stage_run(client: MlflowClient, run: Run, number: int, root: Ids) -> Ids:
    """Return the ids of the run of a stage that is not complete, or not wholly logged; delete what was logged
    of the stage before it was done again."""
    params = {**_columns(run), "stage": str(number), "curriculum": run.name}
    base = number == BASE_POLICY
    name = "base policy" if base else f"stage {number} · {params['arm']}"
    tags = {"level": "start" if base else "stage", "stage": str(number), MLFLOW_PARENT_RUN_ID: root.run}
    fields = {"experiment": root.experiment, "parent": root.run, "manifest": ""}
    ids = _run_of(client, run.folder(number), name, tags, params, **fields)
    below = f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{root.run}' AND tags.stage = '{number}'"
    for earlier in client.search_runs([root.experiment], below):
        if (old := earlier.info.run_id) == ids.run:
            continue
        for output in earlier.outputs.model_outputs if earlier.outputs else []:
            client.delete_logged_model(output.model_id)
        traces = client.search_traces(locations=[root.experiment], run_id=old, include_spans=False)
        if traces:
            client.delete_traces(root.experiment, trace_ids=[trace.info.trace_id for trace in traces])
        client.delete_run(old)
    return ids


def _log_until(client: MlflowClient, run: Run, stage: int, root: Ids) -> None:
    """Log the base policy and the stages up to a complete one, unless they are logged as they are."""
    stages: dict[int, Ids] = {}
    for number in range(BASE_POLICY, stage + 1):
        manifest = run.digest(files.ROLLOUTS if number == BASE_POLICY else files.MANIFEST, number)
        ids = _read_ids(run.folder(number))
        if ids is None or (ids.parent, ids.manifest) != (root.run, manifest):
            parent = None if number == BASE_POLICY else stages[run.parent(number)]
            logged = _log_stage(client, run, number, root, parent)
            ids = _write_ids(run.folder(number), logged, manifest=manifest)
        stages[number] = ids


def _log_stage(client: MlflowClient, run: Run, number: int, root: Ids, parent: Ids | None) -> Ids:
    """Log the evaluation of the base policy, or a complete stage, all but the digest of its manifest."""
    ids, folder = _stage_run(client, run, number, root), run.folder(number)
    space, test = run.preset.space, run.test_breakdown(number)
    rates = _rates(space, run.read(files.BREAKDOWN, number))
    tested = {f"test/{name}": rate for name, rate in _rates(space, test).items()} if test else {}
    validation = _dataset(run, files.VALIDATION, f"{run.preset.name}-validation")
    with mlflow.start_run(run_id=ids.run):
        if not ids.model:
            ids = _write_ids(folder, ids, model=_model(run, number, root.experiment, parent))
        mlflow.log_input(validation, "validation")  # before its metrics, which would log it without a context
        mlflow.log_metrics(rates, step=number + 1, model_id=ids.model, dataset=validation)
        mlflow.log_metrics(tested, step=number + 1, model_id=ids.model)
        if parent:
            data = _dataset(run, files.TRAIN_DATA, f"{run.name}-{folder.name}", number)
            mlflow.log_input(data, "training", model=LoggedModelInput(parent.model))
    if parent:
        log = run.read(files.TRAINING_LOG, number)
        steps = {f"train/{name}": zip(log["step"], log[name], strict=True) for name in SERIES}
        points = {name: [point for point in series if point[1] is not None] for name, series in steps.items()}
        points |= stratum_series(space, zip(log["step"], log["strata"], strict=True))
        _log_points(client, ids.run, points, only_new=True)
        for file in _ARTIFACTS:
            client.log_artifact(ids.run, str(run.path(file, number)))
    whole = {name: [(number + 1, rate)] for name, rate in (rates | tested).items()}
    _log_points(client, root.run, whole, only_new=True)
    client.set_terminated(ids.run)
    return ids


def _rates(space: Space, breakdown: Breakdown) -> dict[str, float]:
    """Return `valid`, `valid/STRATUM` and, where the environment has it, `optimal` likewise."""
    parts = {f"/{space.label(name)}": counts for name, counts in breakdown.strata.items()}
    return {
        _metric(f"{name}{part}"): getattr(counts, f"{name}_rate").value
        for part, counts in {"": breakdown.overall, **parts}.items()
        for name in rate_names(space.best)
    }


def _metric(name: str) -> str:
    return re.sub(r"[^\w.\- /:]", "-", name)  # MLflow refuses these


def _model(run: Run, number: int, experiment: str, parent: Ids | None) -> str:
    """Create the model of a checkpoint, tagged with what it was made from; return its id."""
    policy = run.policy(number)
    tags = {
        "stage": str(number),
        "digest": run.identity(number),
        "path": str(Path(policy).resolve()) if Path(policy).is_dir() else policy,
        "validation_digest": run.digest(files.VALIDATION),
    }
    if parent:
        digests = {"dataset_digest": files.TRAIN_DATA, "config_digest": files.CONFIG}
        tags |= {"parent": parent.model} | {key: run.digest(file, number) for key, file in digests.items()}
    name = re.sub(r"[/:.%\"']", "-", f"{run.name}-{run.folder(number).name}")  # MLflow refuses these
    model = mlflow.create_external_model(name, tags=tags, model_type="checkpoint", experiment_id=experiment)
    mlflow.log_outputs([LoggedModelOutput(model.model_id, max(number, 0))])
    return model.model_id


def _log_points(client: MlflowClient, run: str, points: Points, only_new: bool = False) -> None:
    """Log metrics by step; with `only_new` those points that the run does not have."""
    now, metrics = round(1000 * time.time()), list[Metric]()
    for name, series in points.items():
        history = client.get_metric_history(run, _metric(name)) if only_new else []
        logged = {metric.step: metric.value for metric in history}
        new = ((step, value) for step, value in series if logged.get(step) != value)
        metrics += [Metric(_metric(name), value, now, step) for step, value in new]
    client.log_batch(run, metrics=metrics)


def _dataset(run: Run, file: files.File, name: str, stage: int | None = None) -> MetaDataset:
    source = LocalArtifactDatasetSource(run.path(file, stage).resolve().as_uri())
    return MetaDataset(source, name=name, digest=run.digest(file, stage)[:36])
