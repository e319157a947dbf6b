from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from mlflow.entities import ViewType

from infra.lineage import DataSetRef, Recorder, flat

KEY = "envwright.key"
SERIES = {"train/reward": [(1, 0.25), (2, 0.5), (3, 0.75)], "train/valid": [(1, 0.1), (2, 0.2)]}
VALIDATION_DIGEST = "b" * 64


@dataclass(frozen=True)
class Store:
    """One MLflow database for all tests; each test names its own curriculum."""

    folder: Path

    def recorder(self) -> Recorder:
        return Recorder(f"sqlite:///{self.folder}/deep/mlflow.db", self.folder / "artifacts")


@pytest.fixture(scope="session")
def store(tmp_path_factory) -> Store:
    found = Store(tmp_path_factory.mktemp("mlflow"))
    found.recorder()
    return found


def record(recorder: Recorder, folder: Path, name: str, stages: int, start: str = "start") -> dict[str, str]:
    """Record a start policy and some stages as a curriculum does; returns the ids of all that was made."""
    ids = {"root": recorder.run(name, name, tags={"seed": "0"}, params={"a.b": "1", "model": "tiny"})}
    validation = DataSetRef(name=f"{name}-validation", path=folder / "validation.parquet", digest=VALIDATION_DIGEST)
    parent = recorder.checkpoint(ids["root"], start, start, folder / start, parent=None, step=0, tags={"model": "tiny"})
    ids["start"] = parent
    for stage in range(stages):
        child = recorder.run(f"{name}-stage-{stage}", f"stage {stage}", parent=ids["root"])
        train = DataSetRef(name=f"{name}-train-{stage}", path=folder / f"stage-{stage}" / "train.parquet", digest=str(stage) * 64)
        recorder.dataset(child, train, "training")
        recorder.dataset(child, validation, "validation")
        parent = recorder.checkpoint(
            child,
            f"{name}-checkpoint-{stage}",
            f"{name}-{stage}",
            folder / name / f"stage-{stage}",
            parent=parent,
            step=stage,
            tags={"envwright.stage": str(stage)},
        )
        recorder.scores(child, parent, validation, {"valid": 0.5 + stage / 10, "optimal": 0.25}, stage)
        recorder.metrics(child, SERIES)
        recorder.metrics(ids["root"], {"valid": [(stage, 0.5 + stage / 10)]})
        recorder.finish(child)
        ids |= {f"run-{stage}": child, f"model-{stage}": parent}
    return ids


def everything(recorder: Recorder) -> dict[str, list]:
    """All that the experiment holds: runs with their points, inputs and outputs, and models with their metrics."""
    client = recorder.client
    runs = []
    for run in client.search_runs([recorder.experiment], run_view_type=ViewType.ALL):
        points = {name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)] for name in run.data.metrics}
        inputs = run.inputs
        datasets = sorted((i.dataset.name, i.dataset.digest) for i in inputs.dataset_inputs) if inputs else []
        parents = sorted(i.model_id for i in inputs.model_inputs) if inputs else []
        outputs = sorted(o.model_id for o in run.outputs.model_outputs) if run.outputs else []
        runs.append((run.info.run_id, run.info.status, run.data.params, run.data.tags, points, datasets, parents, outputs))
    models = [
        (m.model_id, m.name, m.tags, sorted((x.key, x.value, x.step, x.dataset_name, x.dataset_digest) for x in m.metrics or []))
        for m in client.search_logged_models([recorder.experiment])
    ]
    return {"runs": sorted(runs, key=lambda r: r[0]), "models": sorted(models, key=lambda m: m[0])}


def test_recording_twice_changes_nothing(store: Store, tmp_path: Path):
    first = record(store.recorder(), tmp_path, "twice", 2)
    before = everything(store.recorder())
    assert record(store.recorder(), tmp_path, "twice", 2) == first
    assert everything(store.recorder()) == before
    mine = [run for run in before["runs"] if run[3][KEY].startswith("twice")]
    assert Counter(len(run[4]) for run in mine) == {1: 1, 4: 2}


def test_points_are_added_once_where_a_run_was_cut_off(store: Store):
    recorder = store.recorder()
    run = recorder.run("cut-off", "cut off")
    recorder.metrics(run, {"train/reward": SERIES["train/reward"][:2]})
    recorder.metrics(run, SERIES)
    recorder.metrics(run, SERIES)
    for name, series in SERIES.items():
        assert [(m.step, m.value) for m in recorder.client.get_metric_history(run, name)] == series


def test_more_points_than_a_batch_holds_are_all_kept(store: Store):
    recorder = store.recorder()
    run = recorder.run("long", "long")
    recorder.metrics(run, {"a": [(step, float(step)) for step in range(700)], "b": [(step, 1.0) for step in range(700)]})
    assert [m.step for m in recorder.client.get_metric_history(run, "a")] == list(range(700))
    assert len(recorder.client.get_metric_history(run, "b")) == 700


def test_figures_that_change_are_logged_again_and_others_are_not(store: Store):
    recorder = store.recorder()
    run = recorder.run("changing", "changing")
    recorder.latest(run, {"valid/a": [(0, 0.5), (1, 0.6)]})
    recorder.latest(run, {"valid/a": [(0, 0.5), (1, 0.7), (2, 0.8)]})
    history = recorder.client.get_metric_history(run, "valid/a")
    assert sorted((m.step, m.value) for m in history) == [(0, 0.5), (1, 0.6), (1, 0.7), (2, 0.8)]
    recorder.latest(run, {"valid/a": [(0, 0.5), (1, 0.7), (2, 0.8)]})
    assert len(recorder.client.get_metric_history(run, "valid/a")) == 4


def test_a_stage_hangs_below_its_curriculum_and_names_data_and_models(store: Store, tmp_path: Path):
    recorder = store.recorder()
    ids = record(recorder, tmp_path, "tree", 2)
    run = recorder.client.get_run(ids["run-1"])
    assert run.data.tags["mlflow.parentRunId"] == ids["root"]
    assert run.info.status == "FINISHED"
    contexts = {i.tags[0].value: (i.dataset.name, i.dataset.digest) for i in run.inputs.dataset_inputs}
    assert contexts == {"training": ("tree-train-1", "1" * 36), "validation": ("tree-validation", VALIDATION_DIGEST[:36])}
    assert [i.model_id for i in run.inputs.model_inputs] == [ids["model-0"]]
    assert [o.model_id for o in run.outputs.model_outputs] == [ids["model-1"]]
    assert recorder.client.get_run(ids["root"]).data.params == {"a.b": "1", "model": "tiny"}


def test_scores_are_tied_to_the_checkpoint_and_its_data_set(store: Store, tmp_path: Path):
    recorder = store.recorder()
    ids = record(recorder, tmp_path, "scored", 1)
    metrics = recorder.client.get_logged_model(ids["model-0"]).metrics
    found = {m.key: (m.value, m.dataset_name, m.dataset_digest, m.run_id) for m in metrics}
    source = ("scored-validation", VALIDATION_DIGEST[:36], ids["run-0"])
    assert found == {"valid": (0.5, *source), "optimal": (0.25, *source)}


def test_ancestry_leads_from_the_newest_checkpoint_to_the_start_policy(store: Store, tmp_path: Path):
    recorder = store.recorder()
    ids = record(recorder, tmp_path, "line", 2, start="line-start")
    newest, middle, oldest = recorder.ancestry(tmp_path / "line" / "stage-1")
    assert [a.checkpoint for a in (newest, middle, oldest)] == ["line-1", "line-0", "line-start"]
    assert [a.parent for a in (newest, middle, oldest)] == [ids["model-0"], ids["start"], None]
    assert newest.datasets == {"training": f"line-train-1 {'1' * 36}", "validation": f"line-validation {VALIDATION_DIGEST[:36]}"}
    assert newest.tags == {"stage": "1"}
    assert newest.metrics == {"valid": 0.6, "optimal": 0.25}
    assert newest.run == "stage 1"
    assert newest.path == str(tmp_path / "line" / "stage-1")
    assert recorder.ancestry(tmp_path / "line" / "stage-0") == [middle, oldest]
    assert recorder.ancestry(tmp_path / "line-start") == [oldest]


def test_curricula_share_the_start_policy_that_they_have_in_common(store: Store, tmp_path: Path):
    one = record(store.recorder(), tmp_path, "one", 1, start="common")
    other = record(store.recorder(), tmp_path, "other", 1, start="common")
    assert one["start"] == other["start"]
    assert not (set(one.values()) & set(other.values())) - {one["start"]}


@pytest.mark.parametrize("name", ["nowhere", "it's", 'a "b"', "100%_\\", "a`b", "x' OR tags.`envwright.key` != '"])
def test_a_checkpoint_that_nobody_recorded_has_no_ancestry(store: Store, tmp_path: Path, name: str):
    assert store.recorder().ancestry(tmp_path / name) == []


@pytest.mark.parametrize("name", ["it's", 'a "b"', "Qwen2.5-7B", "50 % of: a`b"])
def test_any_name_is_recorded_once_and_found(store: Store, tmp_path: Path, name: str):
    recorder = store.recorder()
    first = record(recorder, tmp_path, name, 1, start=f"start of {name}")
    assert record(recorder, tmp_path, name, 1, start=f"start of {name}") == first
    newest, oldest = recorder.ancestry(tmp_path / name / "stage-0")
    assert newest.path == str(tmp_path / name / "stage-0")
    assert oldest.path == str(tmp_path / f"start of {name}")


def test_files_are_kept_with_their_run_and_replaced_by_name(store: Store, tmp_path: Path):
    recorder = store.recorder()
    run = recorder.run("files", "files")
    for text in ("old", "new"):
        (tmp_path / "config.json").write_text(text)
        recorder.artifact(run, tmp_path / "config.json")
    assert [a.path for a in recorder.client.list_artifacts(run)] == ["config.json"]
    assert [p.read_text() for p in (store.folder / "artifacts").rglob("config.json")] == ["new"]


def test_nested_settings_become_dotted_parameters():
    assert flat({"a": {"b": 1, "c": {"d": [1, 2]}}, "e": "text", "f": {}, "g": None, "h": True}) == {
        "a.b": "1",
        "a.c.d": "[1, 2]",
        "e": "text",
        "f": "{}",
        "g": "null",
        "h": "true",
    }
