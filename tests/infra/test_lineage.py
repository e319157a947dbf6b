"""What a recorder writes: runs, points, data sets, models, files, views of an experiment."""

import json
from collections import Counter
from pathlib import Path

import mlflow
import pytest
from recorded_curricula import KEY, SERIES, VALIDATION_DIGEST, Store, everything, record

from envgen.config import EnvConfig
from envgen.environment import Source
from envgen.registry import EnvironmentSpec
from envgen.sampling import sample
from infra.lineage import Recorder, flat
from infra.lineage.ancestry import ancestry
from infra.lineage.columns import readable, scores
from infra.lineage.views import chart_place
from policy.rollouts import Rollout


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


@pytest.mark.parametrize(("name", "label"), [("mapf-frozenlake", "wait_required"), ("sums", "carry")])
def test_rates_have_a_column_for_each_stratum_and_label(name: str, label: str):
    task = EnvironmentSpec(name=name).load()
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
    login = chart_place("postgresql://me:secret@host/mlflow", "7")
    assert login.startswith(
        'mlflow ui --backend-store-uri "$MLFLOW_TRACKING_URI", then http://127.0.0.1:5000/#/'
    )


def test_a_table_in_mlflow_has_space_between_its_columns():
    table = "Ahead: a.\n\n# Title\n\n| a | b |\n| --- | ---: |\n| x | 1 |\n\na | b"
    gap = "&nbsp;" * 3
    shown = f"Ahead: a.\n\n**Title**\n\n| a{gap}| b{gap}|\n| --- | ---: |\n| x{gap}| 1{gap}|\n\na | b"
    assert readable(table) == shown
