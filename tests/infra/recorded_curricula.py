"""Curricula as a recorder writes them, without runs."""

from dataclasses import dataclass
from pathlib import Path

from mlflow.entities import ViewType

from infra.lineage import DataSetRef, Recorder
from infra.lineage.checkpoint_tags import Facts

KEY = "envwright.key"
SERIES = {"train/reward": [(1, 0.25), (2, 0.5), (3, 0.75)], "train/valid": [(1, 0.1), (2, 0.2)]}
VALIDATION_DIGEST = "b" * 64


@dataclass(frozen=True)
class Store:
    """One MLflow database for all tests; each test names its own curriculum."""

    folder: Path

    @property
    def uri(self) -> str:
        return f"sqlite:///{self.folder}/deep/mlflow.db"

    def recorder(self) -> Recorder:
        return Recorder(self.uri, self.folder / "artifacts", "tiny")


def facts(name: str, stage: int, path: Path, **more: str | int | None) -> Facts:
    given = {
        "curriculum": name,
        "run": name,
        "preset": "micro",
        "seed": 0,
        "stage": stage,
        "path": str(path),
        "digest": f"{name}-{stage}",
    }
    return Facts.model_validate(given | more)


def record(recorder: Recorder, folder: Path, name: str, stages: int) -> dict[str, str]:
    """Record a base policy and some stages as a curriculum does; returns the ids of all that was made."""
    ids = {"root": recorder.run(name, name, tags={"seed": "0"}, params={"a.b": "1", "model": "tiny"})}
    validation = DataSetRef(
        name=f"{name}-validation", path=folder / "validation.parquet", digest=VALIDATION_DIGEST
    )
    parent = recorder.checkpoint(
        ids["root"], f"{name}-start", f"{name}-start", facts(name, -1, folder / "start"), step=0
    )
    ids["start"] = parent
    for stage in range(stages):
        child = recorder.run(f"{name}-stage-{stage}", f"stage {stage}", parent=ids["root"])
        train = DataSetRef(
            name=f"{name}-train-{stage}",
            path=folder / f"stage-{stage}" / "train.parquet",
            digest=str(stage) * 64,
        )
        recorder.inputs(child, {"training": train, "validation": validation}, parent)
        made = facts(
            name,
            stage,
            folder / name / f"stage-{stage}",
            parent=parent,
            dataset=train.name,
            dataset_digest=train.digest,
            instances=16,
        )
        parent = recorder.checkpoint(child, f"{name}-checkpoint-{stage}", f"{name}-{stage}", made, step=stage)
        recorder.scores(child, parent, validation, {"valid": 0.5 + stage / 10, "optimal": 0.25}, stage)
        recorder.metrics(child, SERIES)
        recorder.metrics(ids["root"], {"valid": [(stage, 0.5 + stage / 10)]})
        recorder.finish(child)
        ids |= {f"run-{stage}": child, f"model-{stage}": parent}
    return ids


def everything(recorder: Recorder) -> dict[str, list]:
    """All that the experiment holds: runs with their points, inputs and outputs, and models with their
    metrics."""
    client = recorder.client
    runs = []
    for run in client.search_runs([recorder.experiment], run_view_type=ViewType.ALL):
        points = {
            name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)]
            for name in run.data.metrics
        }
        inputs = run.inputs
        datasets = sorted((i.dataset.name, i.dataset.digest) for i in inputs.dataset_inputs) if inputs else []
        parents = sorted(i.model_id for i in inputs.model_inputs) if inputs else []
        outputs = sorted(o.model_id for o in run.outputs.model_outputs) if run.outputs else []
        runs.append(
            (
                run.info.run_id,
                run.info.status,
                run.data.params,
                run.data.tags,
                points,
                datasets,
                parents,
                outputs,
            )
        )
    models = [
        (
            m.model_id,
            m.name,
            m.tags,
            sorted((x.key, x.value, x.step, x.dataset_name, x.dataset_digest) for x in m.metrics or []),
        )
        for m in client.search_logged_models([recorder.experiment])
    ]
    return {"runs": sorted(runs, key=lambda r: r[0]), "models": sorted(models, key=lambda m: m[0])}
