"""Idempotent writes to one MLflow experiment."""

import logging
import math
import re
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import mlflow
from mlflow import MlflowClient
from mlflow.data.meta_dataset import MetaDataset
from mlflow.data.sources import LocalArtifactDatasetSource  # type: ignore[attr-defined]
from mlflow.entities import (
    DatasetInput,
    Experiment,
    InputTag,
    LoggedModel,
    LoggedModelInput,
    LoggedModelOutput,
    Metric,
    Param,
    Run,
    RunTag,
)
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NOTE

from envgen.frozen import Frozen
from infra.config.settings import without_password
from infra.lineage.checkpoint_tags import CURRICULUM, DIGEST, KEY, STAGE, Facts, quoted, tagged, unquoted
from infra.lineage.views import VIEWS, view_address

EXPERIMENTS = "envwright/"
"""What the names of experiments begin with: there is one for each preset and for each comparison."""
KIND = "mlflow.experimentKind"
"""Tag of an experiment: MLflow's pages for training open on the runs, those for applications on traces."""
DIGEST_LENGTH = 36
METRICS_AT_ONCE, PARAMETERS_AT_ONCE = 1000, 100
"""What MLflow accepts in one call."""
LONGEST = 60.0
"""Seconds after which a recorder refuses to go on: MLflow may be slow, the run must not be."""


class DataSetRef(Frozen):
    """A data set as lineage names it."""

    name: str
    path: Path
    digest: str


class Recorder:
    """Idempotent writes to one MLflow experiment, made if it is new.

    TimeoutError once `longest` seconds have passed.
    """

    def __init__(
        self,
        tracking_uri: str,
        artifacts: Path,
        experiment: str,
        under: str | None = None,
        longest: float = LONGEST,
    ) -> None:
        """A recorder for the experiment of a preset or comparison of this name; below the run `under`, for
        that of the run."""
        local = tracking_uri.startswith("sqlite:///")
        if local:
            Path(tracking_uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        self._client, self.tracking_uri = connect(tracking_uri), tracking_uri
        found = (
            self._client.get_experiment(self._client.get_run(under).info.experiment_id)
            if under
            else self._experiment(EXPERIMENTS + experiment, artifacts)
        )
        self.experiment = found.experiment_id
        for tag, view in {**VIEWS, KIND: "custom_model_development"}.items():
            if found.tags.get(tag) != view:
                self._client.set_experiment_tag(self.experiment, tag, view)
        self._longest, self._end = longest, time.monotonic() + longest

    def _experiment(self, name: str, artifacts: Path) -> Experiment:
        found = self._client.get_experiment_by_name(name)
        if found:
            return found
        location = None if self.tracking_uri.startswith("http") else artifacts.resolve().as_uri()
        try:
            return self._client.get_experiment(self._client.create_experiment(name, location))
        except MlflowException:  # another process may have made it since
            if found := self._client.get_experiment_by_name(name):
                return found
            raise

    @property
    def client(self) -> MlflowClient:
        """The client, while there is time."""
        if time.monotonic() > self._end:
            raise TimeoutError(f"MLflow was not done after {self._longest:g} s")
        return self._client

    def addresses(self, run_id: str) -> dict[str, str]:
        """Where the MLflow UI shows a stage's run, the report, the rates as a picture, and the views of the
        experiment; without a server only the id."""
        if not self.tracking_uri.startswith("http"):
            return {"MLflow run": run_id}
        server = without_password(self.tracking_uri).rstrip("/")
        experiment = f"{server}/#/experiments/{self.experiment}"
        curriculum = self.client.get_run(run_id).data.tags.get(MLFLOW_PARENT_RUN_ID, run_id)
        return {
            "report in MLflow": f"{experiment}/runs/{curriculum}/artifacts/report.html",
            "last stage in MLflow": f"{experiment}/runs/{run_id}",
            "engineer variants in MLflow, as a chart": f"{server}/{self._chart}",
            "curricula in MLflow, as a chart": f"{server}/{view_address(self.experiment, 'curricula', True)}",
            "stages in MLflow": f"{server}/{view_address(self.experiment, 'stages')}",
        }

    @property
    def _chart(self) -> str:
        return view_address(self.experiment, "engineers", chart=True)

    def run(
        self,
        key: str,
        name: str,
        *,
        parent: str | None = None,
        tags: dict[str, str] | None = None,
        params: dict[str, Any] | None = None,
        started: datetime | None = None,
    ) -> str:
        """The id of the run with this key, made if it is new, as one that began at `started`.

        Parameters already there are left alone, tags are set anew.
        """
        found = self.find_run(key)
        if found:
            run_id, known_params, known_tags = found.info.run_id, found.data.params, found.data.tags
        else:
            links = {"mlflow.parentRunId": parent} if parent else {}
            run_id = self.client.create_run(
                self.experiment,
                start_time=started and _milliseconds(started),
                run_name=name,
                tags={KEY: quoted(key), **links, **(tags or {})},
            ).info.run_id
            known_params, known_tags = {}, tags or {}
        self._settings(
            run_id,
            {k: v for k, v in (params or {}).items() if k not in known_params},
            {k: v for k, v in (tags or {}).items() if known_tags.get(k) != v},
        )
        return run_id

    def find_run(self, key: str) -> Run | None:
        """The run with a key."""
        found = self.client.search_runs([self.experiment], tagged(KEY, key), max_results=1)
        return found[0] if found else None

    def runs(self, curriculum: str) -> dict[int, Run]:
        """The stage runs of a curriculum by stage."""
        found = self.client.search_runs([self.experiment], tagged(CURRICULUM, curriculum), max_results=1000)
        return {int(run.data.tags[STAGE]): run for run in found}

    def models(self, curriculum: str) -> dict[tuple[int, str], str]:
        """The model ids of a curriculum's checkpoints by stage and digest.

        A stage that was done again has more than one.
        """
        found = mlflow.search_logged_models(
            experiment_ids=[self.experiment],
            filter_string=tagged(CURRICULUM, curriculum),
            output_format="list",
        )
        return {(int(model.tags[STAGE]), unquoted(model.tags[DIGEST])): model.model_id for model in found}

    def metrics(self, run_id: str, points: dict[str, list[tuple[int, float]]]) -> None:
        """Log (step, value) points unless the run's latest value at that step is the same.

        MLflow keeps the older ones beside them.
        """
        known = {
            name: {m.step: m.value for m in sorted(history, key=_moment)}
            for name, history in self._histories(run_id, points).items()
        }
        new = {
            name: [(step, value) for step, value in series if _differ(known.get(name, {}).get(step), value)]
            for name, series in points.items()
        }
        self._points(run_id, new)

    def inputs(self, run_id: str, datasets: dict[str, DataSetRef], model: str | None = None) -> None:
        """Tie data sets, by their context (training, validation), and a model to a run as its inputs."""
        found = self.client.get_run(run_id).inputs
        known = {(i.dataset.name, i.dataset.digest) for i in found.dataset_inputs} if found else set()
        new = [
            _input(data, context)
            for context, data in datasets.items()
            if (data.name, data.digest[:DIGEST_LENGTH]) not in known
        ]
        models = (
            [LoggedModelInput(model)]
            if model and not (found and any(i.model_id == model for i in found.model_inputs))
            else []
        )
        if new or models:
            self.client.log_inputs(run_id, datasets=new, models=models)

    def checkpoint(self, run_id: str, key: str, name: str, facts: Facts, *, step: int) -> str:
        """The id of the LoggedModel with this key, made by `run_id` if it is new.

        Its tags say the facts. The bytes stay where they are.
        """
        model, tags = self.model(key), facts.tags()
        if model is None:
            model = mlflow.create_external_model(
                name=re.sub(r"[/:.%\"']", "-", name),  # characters that MLflow refuses in the name of a model
                source_run_id=run_id,
                experiment_id=self.experiment,
                model_type="checkpoint",
                tags={KEY: quoted(key), **tags},
            )
        elif changed := {tag: value for tag, value in tags.items() if model.tags.get(tag) != value}:
            self.client.set_logged_model_tags(model.model_id, changed)
        outputs = self.client.get_run(run_id).outputs
        if not outputs or all(o.model_id != model.model_id for o in outputs.model_outputs):
            self.client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step)])
        return model.model_id

    def model(self, key: str) -> LoggedModel | None:
        """The LoggedModel with a key."""
        found = self.client.search_logged_models(
            [self.experiment], filter_string=tagged(KEY, key), max_results=1
        )
        return found[0] if found else None

    def scores(
        self, run_id: str, model_id: str, data: DataSetRef, scores: dict[str, float], step: int
    ) -> None:
        """Tie scores to a checkpoint, the data set they were measured on and the run; the latest count."""
        measured = self.client.get_logged_model(model_id).metrics or []
        known = [
            {m.key: m.value for m in sorted(measured, key=_moment)},
            self.client.get_run(run_id).data.metrics,
        ]
        about = {
            "model_id": model_id,
            "dataset_name": data.name,
            "dataset_digest": data.digest[:DIGEST_LENGTH],
            "run_id": run_id,
        }
        todo = [
            Metric(name, value, _now(), step, **about)
            for name, value in scores.items()
            if any(_differ(has.get(name), value) for has in known)
        ]
        if todo:
            self.client.log_batch(run_id, metrics=todo)

    def describe(self, run_id: str, text: str) -> None:
        """Show Markdown above the experiment and on the page of a run, after a link to its chart.

        MLflow shows its first line, until somebody opens the rest.
        """
        text = f"[Chart]({self._chart}). {text}"
        self.client.set_experiment_tag(self.experiment, MLFLOW_RUN_NOTE, text)
        self._settings(run_id, {}, {MLFLOW_RUN_NOTE: text})

    def artifact(self, run_id: str, path: Path) -> None:
        """Store a small file with the run; the same name is replaced."""
        self.client.log_artifact(run_id, str(path))

    def finish(self, run_id: str, tags: dict[str, str] | None = None, ended: datetime | None = None) -> None:
        """Mark a run as finished, now or at `ended`, with tags that say so."""
        self._settings(run_id, {}, tags or {})
        self.client.set_terminated(run_id, "FINISHED", ended and _milliseconds(ended))

    def _settings(self, run_id: str, params: dict[str, Any], tags: dict[str, str]) -> None:
        entities = [Param(k, str(v)) for k, v in params.items()]
        for first in range(0, len(entities), PARAMETERS_AT_ONCE):
            self.client.log_batch(run_id, params=entities[first : first + PARAMETERS_AT_ONCE])
        if tags:
            self.client.log_batch(run_id, tags=[RunTag(k, v) for k, v in tags.items()])

    def _histories(self, run_id: str, names: dict[str, Any]) -> dict[str, list[Metric]]:
        """What a run has of the named metrics; those it has nothing of are left out."""
        known = self.client.get_run(run_id).data.metrics
        return {name: self.client.get_metric_history(run_id, name) for name in names if name in known}

    def _points(self, run_id: str, points: dict[str, list[tuple[int, float]]]) -> None:
        now = _now()
        todo = [Metric(name, value, now, step) for name, series in points.items() for step, value in series]
        for first in range(0, len(todo), METRICS_AT_ONCE):
            self.client.log_batch(run_id, metrics=todo[first : first + METRICS_AT_ONCE])


def connect(tracking_uri: str) -> MlflowClient:
    """A client of an MLflow store, which the rest of this process uses too."""
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    mlflow.set_tracking_uri(tracking_uri)
    return MlflowClient()


def _input(data: DataSetRef, context: str) -> DatasetInput:
    dataset = MetaDataset(
        LocalArtifactDatasetSource(data.path.resolve().as_uri()),
        name=data.name,
        digest=data.digest[:DIGEST_LENGTH],
    )
    return DatasetInput(dataset._to_mlflow_entity(), [InputTag("mlflow.data.context", context)])


def _moment(metric: Metric) -> int:
    return metric.timestamp


def _differ(known: float | None, value: float) -> bool:
    return known is None or (known != value and not (math.isnan(known) and math.isnan(value)))


def _now() -> int:
    return int(time.time() * 1000)


def _milliseconds(moment: datetime) -> int:
    return round(1000 * moment.timestamp())
