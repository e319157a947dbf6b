"""Lineage in MLflow: a parent run a curriculum, a child run a stage, a LoggedModel a checkpoint.

Everything is found by a tag before it is made, so recording a stage twice changes nothing. MLflow is a record, never
the source of truth: the stage directories decide what is done.
"""

import json
import logging
import os
import re
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

import mlflow
from mlflow import MlflowClient
from mlflow.data.meta_dataset import MetaDataset
from mlflow.data.sources import LocalArtifactDatasetSource  # type: ignore[attr-defined]
from mlflow.entities import DatasetInput, InputTag, LoggedModelInput, LoggedModelOutput, Metric, Run
from pydantic import BaseModel, ConfigDict

KEY = "envwright.key"
EXPERIMENT = "envwright"
DIGEST_LENGTH = 36
BATCH = 1000


class DataSetRef(BaseModel):
    """A data set as lineage names it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    path: Path
    digest: str


class Ancestor(BaseModel):
    """One checkpoint of a chain, with what made it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    checkpoint: str
    path: str
    run: str
    datasets: dict[str, str]
    """Context (training, validation) -> name and digest."""
    tags: dict[str, str]
    metrics: dict[str, float]
    parent: str | None
    """Model id of the checkpoint it was trained from."""


class Recorder:
    """Idempotent writes to one MLflow experiment."""

    def __init__(self, tracking_uri: str, artifacts: Path) -> None:
        if tracking_uri.startswith("sqlite:///"):
            Path(tracking_uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        mlflow.set_tracking_uri(tracking_uri)
        self.client = MlflowClient()
        found = self.client.get_experiment_by_name(EXPERIMENT)
        location = artifacts.resolve().as_uri() if tracking_uri.startswith("sqlite:///") else None
        self.experiment = found.experiment_id if found else self.client.create_experiment(EXPERIMENT, artifact_location=location)

    def run(self, key: str, name: str, *, parent: str | None = None, tags: dict[str, str] | None = None, params: dict[str, Any] | None = None) -> str:
        """The id of the run with this key, made if it is new; parameters already there are left alone."""
        found = self.client.search_runs([self.experiment], _tagged(KEY, key), max_results=1)
        if found:
            run_id = found[0].info.run_id
        else:
            links = {"mlflow.parentRunId": parent} if parent else {}
            run_id = self.client.create_run(self.experiment, run_name=name, tags={KEY: _quoted(key), **links, **(tags or {})}).info.run_id
        known = self.client.get_run(run_id).data.params
        for field, value in (params or {}).items():
            if field not in known:
                self.client.log_param(run_id, field, value)
        return run_id

    def metrics(self, run_id: str, points: dict[str, list[tuple[int, float]]]) -> None:
        """Log (step, value) points, only those later than what the run has."""
        now = int(time.time() * 1000)
        todo = []
        for name, series in points.items():
            last = max((m.step for m in self.client.get_metric_history(run_id, name)), default=-1)
            todo += [Metric(name, value, now, step) for step, value in series if step > last]
        for first in range(0, len(todo), BATCH):
            self.client.log_batch(run_id, metrics=todo[first : first + BATCH])

    def latest(self, run_id: str, points: dict[str, list[tuple[int, float]]]) -> None:
        """Log (step, value) points unless the run's latest value at that step is the same: for figures that change as more is known."""
        now = int(time.time() * 1000)
        todo = []
        for name, series in points.items():
            known = {m.step: m.value for m in sorted(self.client.get_metric_history(run_id, name), key=lambda m: m.timestamp)}
            todo += [Metric(name, value, now, step) for step, value in series if known.get(step) != value]
        for first in range(0, len(todo), BATCH):
            self.client.log_batch(run_id, metrics=todo[first : first + BATCH])

    def dataset(self, run_id: str, data: DataSetRef, context: str) -> None:
        """Tie a data set to a run as its input in a context."""
        known = _datasets(self.client.get_run(run_id))
        if any(i.dataset.name == data.name and i.dataset.digest == data.digest[:DIGEST_LENGTH] for i in known):
            return
        dataset = MetaDataset(LocalArtifactDatasetSource(data.path.resolve().as_uri()), name=data.name, digest=data.digest[:DIGEST_LENGTH])
        tag = InputTag("mlflow.data.context", context)
        self.client.log_inputs(run_id, datasets=[DatasetInput(dataset._to_mlflow_entity(), [tag])])

    def checkpoint(self, run_id: str, key: str, name: str, path: Path, *, parent: str | None, step: int, tags: dict[str, str]) -> str:
        """The id of the LoggedModel of a checkpoint, made by `run_id` from the model `parent`. The bytes stay where they are."""
        model_id = self._model(key)
        if model_id is None:
            links = {"envwright.parent": parent} if parent else {}
            model = mlflow.create_external_model(
                name=re.sub(r"[/:.%\"']", "-", name),  # characters that MLflow refuses in the name of a model
                source_run_id=run_id,
                experiment_id=self.experiment,
                model_type="checkpoint",
                tags={KEY: _quoted(key), "envwright.path": _quoted(str(path.resolve())), **links, **tags},
            )
            model_id = model.model_id
        run = self.client.get_run(run_id)
        if run.outputs is None or model_id not in [o.model_id for o in run.outputs.model_outputs]:
            self.client.log_outputs(run_id, [LoggedModelOutput(model_id, step)])
        if parent and (run.inputs is None or parent not in [i.model_id for i in run.inputs.model_inputs]):
            self.client.log_inputs(run_id, models=[LoggedModelInput(parent)])
        return model_id

    def scores(self, run_id: str, model_id: str, data: DataSetRef, scores: dict[str, float], step: int) -> None:
        """Tie scores to a checkpoint and the data set they were measured on."""
        known = {m.key for m in self.client.get_logged_model(model_id).metrics or []}
        for name, value in scores.items():
            if name not in known:
                self.client.log_metric(run_id, name, value, step=step, dataset_name=data.name, dataset_digest=data.digest[:DIGEST_LENGTH], model_id=model_id)

    def artifact(self, run_id: str, path: Path) -> None:
        """Store a small file with the run; the same name is replaced."""
        self.client.log_artifact(run_id, str(path))

    def tag(self, run_id: str, name: str, value: str) -> None:
        """Set a tag of a run."""
        self.client.set_tag(run_id, name, value)

    def finish(self, run_id: str) -> None:
        """Mark a run as finished."""
        self.client.set_terminated(run_id, "FINISHED")

    def ancestry(self, path: Path) -> list[Ancestor]:
        """The checkpoint at `path` and what it was trained from, newest first; empty if MLflow does not know it."""
        found = mlflow.search_logged_models(
            experiment_ids=[self.experiment], filter_string=_tagged("envwright.path", str(path.resolve())), output_format="list", max_results=1
        )
        chain: list[Ancestor] = []
        model_id: str | None = found[0].model_id if found else None
        while model_id and len(chain) < 1000:
            model = self.client.get_logged_model(model_id)
            run = self.client.get_run(str(model.source_run_id))
            datasets = {next((t.value for t in i.tags if t.key == "mlflow.data.context"), ""): f"{i.dataset.name} {i.dataset.digest}" for i in _datasets(run)}
            parent = model.tags.get("envwright.parent")
            chain.append(
                Ancestor(
                    checkpoint=model.name,
                    path=_unquoted(model.tags["envwright.path"]),
                    run=run.info.run_name or "",
                    datasets=datasets,
                    tags={
                        k.removeprefix("envwright."): v
                        for k, v in model.tags.items()
                        if k.startswith("envwright.") and k not in {KEY, "envwright.path", "envwright.parent"}
                    },
                    metrics={m.key: m.value for m in model.metrics or []},
                    parent=parent,
                )
            )
            model_id = parent
        return chain

    def _model(self, key: str) -> str | None:
        found = mlflow.search_logged_models(experiment_ids=[self.experiment], filter_string=_tagged(KEY, key), output_format="list", max_results=1)
        return found[0].model_id if found else None


def _tagged(tag: str, value: str) -> str:
    return f"tags.`{tag}` = '{_quoted(value)}'"


def _quoted(text: str) -> str:
    """A text as tags hold it: quotes in it would end those of a search."""
    return text.replace("'", "%27").replace('"', "%22")


def _unquoted(text: str) -> str:
    return text.replace("%27", "'").replace("%22", '"')


def _datasets(run: Run) -> list[DatasetInput]:
    return run.inputs.dataset_inputs if run.inputs else []


def flat(value: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as dotted MLflow parameters, values as short JSON."""
    found: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, dict) and item:
            found |= flat(item, f"{prefix}{key}.")
        else:
            found[prefix + key] = item if isinstance(item, str) else json.dumps(item)
    return found
