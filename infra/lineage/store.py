"""The MLflow store: client, experiments, ids that are kept in files, and addresses in its UI."""

import json
import logging
import os
import re
import time
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

# Read when mlflow is imported: a server that is down costs seconds, not minutes.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
os.environ.setdefault("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from pydantic import ValidationError

from envgen.files import write_json
from envgen.frozen import Frozen
from infra.config.preset import Preset, leaves
from infra.config.settings import Settings, without_password

EXPERIMENTS = "envwright/"
"""Prefix of the names of experiments: there is one for each preset and each comparison."""
IDS = "mlflow.json"
"""File with the ids that MLflow gave, beside what they describe; written last."""
ARMS = "arms"
"""Name of the saved view of an experiment: rates by stage, a line for the mean of each arm. Its state, as the
UI of MLflow saves it, is in `arms_view.json`."""
_REFUSED = re.compile(r"[^\w.\- /:]")
"""Characters that MLflow refuses in the name of a metric."""

Ids = TypeVar("Ids", bound=Frozen)
Points = dict[str, list[tuple[int, float]]]
"""Name of a metric -> (step, value)."""


class RunIds(Frozen):
    """Ids of a curriculum or comparison in MLflow."""

    store: str
    experiment: str
    run: str


def connect() -> MlflowClient:
    """Return a client of the configured store, which the rest of this process uses too."""
    uri = Settings().tracking_uri
    if uri.startswith("sqlite:///"):
        Path(unquote(uri.removeprefix("sqlite:///"))).parent.mkdir(parents=True, exist_ok=True)
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    mlflow.set_tracking_uri(uri)
    return MlflowClient()


def read_ids(directory: Path, kind: type[Ids]) -> Ids | None:
    """Return the ids kept in a directory; None if there are none."""
    try:
        return kind.model_validate_json((directory / IDS).read_bytes())
    except (OSError, ValidationError):
        return None


def is_logged(directory: Path) -> bool:
    """Whether every finished stage of a run directory has ids of MLflow."""
    manifests = directory.glob("stage-*/manifest.json")
    return all(manifest.with_name(IDS).exists() for manifest in manifests)


def ensure_run(
    client: MlflowClient,
    directory: Path,
    experiment: str,
    name: str,
    tags: dict[str, str],
    params: dict[str, str],
    started: int | None = None,
) -> RunIds:
    """Return the ids of a directory; a run with these parameters is created if it has none in this store."""
    ids, store = read_ids(directory, RunIds), without_password(Settings().tracking_uri)
    if ids is not None and ids.store == store and _is_active(client, ids.run, experiment):
        return ids
    run = client.create_run(experiment, started, tags, name).info.run_id
    client.log_batch(run, params=[Param(name, value) for name, value in params.items()])
    ids = RunIds(store=store, experiment=experiment, run=run)
    write_json(directory / IDS, ids)
    return ids


def _is_active(client: MlflowClient, run: str, experiment: str) -> bool:
    try:
        info = client.get_run(run).info
    except MlflowException:
        return False
    return info.lifecycle_stage == "active" and info.experiment_id == experiment


def experiment_id(client: MlflowClient, name: str) -> str:
    """Return the id of the experiment of a preset or comparison; it is created if it is new."""
    experiment = client.get_experiment_by_name(EXPERIMENTS + name)
    if experiment:
        return experiment.experiment_id
    settings = Settings()
    artifacts = (settings.runs / "mlartifacts").resolve().as_uri()
    view = Path(__file__).with_name("arms_view.json").read_text()
    tags = {f"mlflow.sharedViewState.{ARMS}": view, "mlflow.experimentKind": "custom_model_development"}
    location = None if settings.tracking_uri.startswith("http") else artifacts
    return client.create_experiment(EXPERIMENTS + name, location, tags=tags)


def preset_params(preset: Preset) -> dict[str, str]:
    """Return the fields of a preset under dotted names; values that are no text as JSON."""
    fields = leaves({"preset": preset.model_dump(mode="json")})
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}


def log_points(client: MlflowClient, run: str, points: Points) -> None:
    """Log metrics by step."""
    now = round(1000 * time.time())
    metrics = [Metric(name, value, now, step) for name, series in points.items() for step, value in series]
    client.log_batch(run, metrics=metrics)


def metric_name(name: str) -> str:
    """Replace characters that MLflow refuses in the name of a metric."""
    return _REFUSED.sub("-", name)


def view_address(experiment: str) -> str:
    """Return the address of the view of arms, to be put after the address of the server."""
    query = f"workflowType=machine_learning&viewStateShareKey={ARMS}&compareRunsMode=CHART"
    return f"#/experiments/{experiment}/runs?{query}"


def server_address() -> str | None:
    """Return the address of the MLflow server without password and slash; None for a database."""
    place = without_password(Settings().tracking_uri)
    return place.rstrip("/") if place.startswith("http") else None
