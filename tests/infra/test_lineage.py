import json
import socket
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import mlflow
import pytest
from mlflow.entities import ViewType

from envgen.config import EnvConfig
from envgen.errors import RunDirectoryError
from envgen.families import FamilySpec
from envgen.family import Source
from envgen.files import file_digest
from envgen.mapf.space import Options, space_of
from envgen.sampling import sample
from infra.analysis.formats import SPACE, config_changes
from infra.lineage import DataSetRef, Recorder, flat
from infra.lineage.ancestry import ancestry
from infra.lineage.checkpoint_tags import Facts
from infra.lineage.columns import scores
from infra.lineage.views import chart_place
from policy.rollouts import Rollout

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


@pytest.fixture(scope="session")
def store(tmp_path_factory) -> Store:
    found = Store(tmp_path_factory.mktemp("mlflow"))
    found.recorder()
    return found


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
    recorder.metrics(
        run, {"a": [(step, float(step)) for step in range(700)], "b": [(step, 1.0) for step in range(700)]}
    )
    assert [m.step for m in recorder.client.get_metric_history(run, "a")] == list(range(700))
    assert len(recorder.client.get_metric_history(run, "b")) == 700


def test_figures_that_change_are_logged_again_and_others_are_not(store: Store):
    recorder = store.recorder()
    run = recorder.run("changing", "changing")
    recorder.metrics(run, {"valid/a": [(0, 0.5), (1, 0.6)]})
    recorder.metrics(run, {"valid/a": [(0, 0.5), (1, 0.7), (2, 0.8)]})
    history = recorder.client.get_metric_history(run, "valid/a")
    assert sorted((m.step, m.value) for m in history) == [(0, 0.5), (1, 0.6), (1, 0.7), (2, 0.8)]
    recorder.metrics(run, {"valid/a": [(0, 0.5), (1, 0.7), (2, 0.8)]})
    assert len(recorder.client.get_metric_history(run, "valid/a")) == 4


def test_a_stage_hangs_below_its_curriculum_and_names_data_and_models(store: Store, tmp_path: Path):
    recorder = store.recorder()
    ids = record(recorder, tmp_path, "tree", 2)
    run = recorder.client.get_run(ids["run-1"])
    assert run.data.tags["mlflow.parentRunId"] == ids["root"]
    assert run.info.status == "FINISHED"
    contexts = {i.tags[0].value: (i.dataset.name, i.dataset.digest) for i in run.inputs.dataset_inputs}
    assert contexts == {
        "training": ("tree-train-1", "1" * 36),
        "validation": ("tree-validation", VALIDATION_DIGEST[:36]),
    }
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


def test_ancestry_leads_from_the_newest_checkpoint_to_the_base_policy(store: Store, tmp_path: Path):
    ids = record(store.recorder(), tmp_path, "line", 2)
    newest, middle, oldest = ancestry(store.uri, str(tmp_path / "line" / "stage-1"))
    assert [a.checkpoint for a in (newest, middle, oldest)] == ["line-1", "line-0", "line-start"]
    assert [a.parent for a in (newest, middle, oldest)] == [ids["model-0"], ids["start"], None]
    assert (newest.dataset, newest.dataset_digest, newest.instances) == ("line-train-1", "1" * 64, 16)
    assert (newest.valid, newest.optimal, oldest.valid) == (0.6, 0.25, None)
    assert (newest.path, newest.stage, oldest.stage) == (str(tmp_path / "line" / "stage-1"), 1, -1)
    assert ancestry(store.uri, str(tmp_path / "line" / "stage-0")) == [middle, oldest]
    assert ancestry(store.uri, f"models:/{ids['model-1']}") == [newest, middle, oldest]


def test_one_search_returns_the_whole_chain(store: Store, tmp_path: Path):
    recorder = store.recorder()
    record(recorder, tmp_path, "searched", 3)
    wanted = "tags.`envwright.curriculum` = 'searched'"
    found = mlflow.search_logged_models(
        experiment_ids=[recorder.experiment], filter_string=wanted, output_format="list"
    )
    parents = {model.model_id: model.tags.get("envwright.parent") for model in found}
    assert len(parents) == 4
    assert set(parents.values()) == {None, *parents} - {
        next(m.model_id for m in found if m.name == "searched-2")
    }


def test_a_checkpoint_that_was_moved_is_known_by_its_digest(store: Store, tmp_path: Path):
    """Two runs share the weights of a stage, as those of a comparison do; the one with the same name is
    meant."""
    recorder, digests = store.recorder(), set()
    for name in ("moved-a", "moved-b"):
        weights = tmp_path / "old" / name / "stage-00" / "checkpoint"
        weights.mkdir(parents=True)
        (weights / "model.safetensors").write_text("weights")
        digests.add(file_digest(weights))
        run = recorder.run(name, name)
        recorder.checkpoint(run, name, name, facts(name, 0, weights, digest=file_digest(weights)), step=0)
    assert len(digests) == 1
    (tmp_path / "old").rename(tmp_path / "new")
    for name in ("moved-a", "moved-b"):
        [found] = ancestry(store.uri, str(tmp_path / "new" / name / "stage-00" / "checkpoint"))
        assert found.run == name
        [deleted] = ancestry(store.uri, str(tmp_path / "old" / name / "stage-00" / "checkpoint"))
        assert deleted == found


def test_other_weights_under_a_recorded_path_are_not_taken_for_it(store: Store, tmp_path: Path):
    weights = tmp_path / "checkpoint"
    weights.mkdir()
    (weights / "model.safetensors").write_text("first")
    recorder = store.recorder()
    recorder.checkpoint(
        recorder.run("other", "other"),
        "other",
        "other",
        facts("other", 0, weights, digest=file_digest(weights)),
        step=0,
    )
    (weights / "model.safetensors").write_text("second")
    with pytest.raises(RunDirectoryError, match="knows no such checkpoint"):
        ancestry(store.uri, str(weights))


@pytest.mark.parametrize(
    "name", ["nowhere", "it's", 'a "b"', "100%_\\", "a`b", "x' OR tags.`envwright.key` != '"]
)
def test_a_checkpoint_that_nobody_recorded_is_refused(store: Store, tmp_path: Path, name: str):
    with pytest.raises(RunDirectoryError, match="knows no such checkpoint"):
        ancestry(store.uri, str(tmp_path / name))


@pytest.mark.parametrize(
    "name",
    [
        "models:/envwright-nobody@best",
        "models:/envwright-nobody/1",
        "models:/m-0",
        "models:/",
        "models:/a@b@c",
        "models:/a/b/c",
    ],
)
def test_a_registered_model_that_nobody_registered_is_refused(store: Store, name: str):
    with pytest.raises(RunDirectoryError, match="knows no such checkpoint"):
        ancestry(store.uri, name)


def test_a_model_that_somebody_else_recorded_is_refused(store: Store):
    recorder = store.recorder()
    model = mlflow.create_external_model(name="foreign", experiment_id=recorder.experiment)
    try:
        with pytest.raises(RunDirectoryError, match="knows no such checkpoint"):
            ancestry(store.uri, f"models:/{model.model_id}")
    finally:
        recorder.client.delete_logged_model(model.model_id)


def test_a_store_that_is_not_there_is_refused_and_not_made(tmp_path: Path):
    with pytest.raises(RunDirectoryError, match="knows no such checkpoint"):
        ancestry(f"sqlite:///{tmp_path}/mlflow.db", "runs/stage-00/checkpoint")
    assert not list(tmp_path.iterdir())


def test_a_server_that_does_not_answer_is_no_unknown_checkpoint():
    with socket.socket() as held:  # bound, and nobody listens
        held.bind(("127.0.0.1", 0))
        with pytest.raises(RunDirectoryError, match=r"MLflow cannot be read: .*; check MLFLOW_TRACKING_URI"):
            ancestry(f"http://127.0.0.1:{held.getsockname()[1]}", "runs/stage-00/checkpoint")


def test_a_recorder_stops_when_its_time_is_up(store: Store):
    recorder = Recorder(store.uri, store.folder / "artifacts", "tiny", longest=0)
    with pytest.raises(TimeoutError, match="not done after 0 s"):
        recorder.run("late", "late")


@pytest.mark.parametrize("name", ["it's", 'a "b"', "Qwen2.5-7B", "50 % of: a`b"])
def test_any_name_is_recorded_once_and_found(store: Store, tmp_path: Path, name: str):
    recorder = store.recorder()
    first = record(recorder, tmp_path, name, 1)
    assert record(recorder, tmp_path, name, 1) == first
    newest, oldest = ancestry(store.uri, str(tmp_path / name / "stage-0"))
    assert newest.path == str(tmp_path / name / "stage-0")
    assert newest.curriculum == oldest.curriculum == name


def boards(**sizes: tuple[float, float, float]) -> EnvConfig:
    """`s3=(data_ratio, hole_ratio, wait_ratio)` and so on."""
    names = ("data_ratio", "hole_ratio", "wait_ratio")
    return EnvConfig.model_validate(
        {"sizes": {size[1:]: dict(zip(names, ratios, strict=True)) for size, ratios in sizes.items()}}
    )


def test_what_a_config_changes_is_said_in_words():
    space = space_of(Options(map_sizes=(3, 4, 10)))
    old, new = boards(s3=(0.5, 0.3, 0.25), s4=(0.5, 0.3, 0.25)), boards(s3=(0.5, 0.3, 0.25), s4=(0.5, 0.2, 1))
    other = boards(s3=(1, 0.3, 0.25))
    said = [
        config_changes(space, *pair).replace(SPACE, " ") for pair in ((old, new), (old, other), (other, old))
    ]
    assert said[0] == "4x4: holes 30 % → 20 %, waits 25 % → 100 %"
    assert said[1:] == ["3x3: data 50 % → 100 %; 4x4: left out", "3x3: data 100 % → 50 %; 4x4: new"]
    assert config_changes(space, old, old) == "nothing"
    largest = boards(s10=(0.5, 0.3, 0.25), s3=(0.5, 0.3, 0.25))
    assert config_changes(space, old, largest) == "4x4: left out; 10x10: new", "in the order of the space"


def test_a_knob_that_is_no_share_is_said_as_a_number():
    space = FamilySpec(name="sums").load().space
    old, new = (
        EnvConfig.model_validate({"terms": {"2": {"data_ratio": 1, "digits": n, "carry_ratio": 0.5}}})
        for n in (1, 2.5)
    )
    assert config_changes(space, old, new) == "2 terms: digits 1 → 2.5"


@pytest.mark.parametrize(("name", "label"), [("mapf-frozenlake", "wait_required"), ("sums", "carry")])
def test_rates_have_a_column_for_each_stratum_and_label(name: str, label: str):
    task = FamilySpec(name=name).load()
    share = dict.fromkeys(task.space.names[:2], 0.5)
    knobs = {
        "mapf-frozenlake": {"hole_ratio": 0.2, "wait_ratio": 0.25},
        "sums": {"digits": 2, "carry_ratio": 0.25},
    }[name]
    config = EnvConfig.model_validate(
        {task.space.key: {stratum: {"data_ratio": part, **knobs} for stratum, part in share.items()}}
    )
    instances, _ = sample(task, config, 16, Source(1))
    answers = [task.reference(one) if label in one.labels else "" for one in instances]
    told = zip(instances, answers, task.judge(instances, answers), strict=True)
    rates = scores(
        task.space,
        [
            Rollout(instance=i, completion=a, completion_tokens=1, truncated=False, verdict=v)
            for i, a, v in told
        ],
    )
    groups = {
        "",
        *(f"/{task.space.label(stratum)}" for stratum in share),
        f"/with-{label}",
        f"/without-{label}",
    }
    assert set(rates) == {
        f"{rate}{group}"
        for rate in ("valid", "optimal")
        if rate == "valid" or task.space.best
        for group in groups
    }
    assert (rates["valid"], rates[f"valid/with-{label}"], rates[f"valid/without-{label}"]) == (0.25, 1, 0)


def test_presets_have_experiments_of_their_own_and_children_are_in_that_of_their_parent(store: Store):
    tiny, other = store.recorder(), Recorder(store.uri, store.folder / "artifacts", "compare-tiny")
    parent = other.run("comparison", "compare-tiny")
    child = Recorder(store.uri, store.folder / "artifacts", "tiny", parent)
    assert tiny.experiment != other.experiment == child.experiment
    assert store.recorder().experiment == tiny.experiment, "made once"
    other.describe(parent, "who is ahead")
    notes = [
        of.tags["mlflow.note.content"]
        for of in (other.client.get_run(parent).data, other.client.get_experiment(other.experiment))
    ]
    chart = f"#/experiments/{other.experiment}/runs?workflowType=machine_learning&viewStateShareKey=engineers"
    assert notes[0] == notes[1]
    assert chart in notes[0]
    assert notes[0].endswith(". who is ahead")


def test_the_experiment_has_views_with_the_columns_that_count(store: Store):
    store.recorder()
    experiment = store.recorder().client.get_experiment_by_name("envwright/tiny")
    assert experiment is not None
    views = {
        name.removeprefix("mlflow.sharedViewState."): json.loads(view)
        for name, view in experiment.tags.items()
        if name.startswith("mlflow.shared")
    }
    assert [view["searchFilter"] for _, view in sorted(views.items())] == [
        "tags.level = 'curriculum'",
        "tags.level = 'curriculum'",
        "tags.level = 'stage'",
    ]
    assert "params.`engineer variant`" in views["curricula"]["selectedColumns"]
    keys = views["engineers"]["groupBy"]["groupByKeys"]
    assert keys == [{"mode": "param", "groupByData": "engineer variant"}]
    assert [chart["metricKey"] for chart in views["engineers"]["compareRunCharts"]] == ["valid", "optimal"]
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"


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


def test_the_chart_of_a_comparison_has_an_address_or_a_command_that_shows_it():
    served = chart_place("http://me:secret@host:5000/", "7")
    assert served.startswith("http://host:5000/#/experiments/7/runs?")
    here = chart_place("sqlite:////my runs/mlflow.db", "7")
    assert here.startswith(
        "mlflow ui --backend-store-uri 'sqlite:////my runs/mlflow.db', then http://127.0.0.1:5000/#/"
    )
