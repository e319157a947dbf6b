"""What MLflow holds of a curriculum, from its start to its end."""

import logging
import shutil
import socket
from pathlib import Path

import pytest
from factories import MICRO, asked, finished_run, shares, with_results
from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun

from envgen.errors import ChildError
from infra import mlflow_log
from infra.config.preset import Preset, load_preset
from infra.config.settings import Settings
from infra.mlflow_log import is_logged, log_stages
from infra.runs.files import MANIFEST, ROLLOUTS, TEST_ROLLOUTS, TRAIN_DATA
from infra.runs.run import Run
from tasks.record import TrainingProgress, record_stages, record_start, recorded


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The database beside runs, in a folder of any name; servers are used in tests/integration."""
    folder = tmp_path_factory.mktemp("store") / "50%20 off? ä#1"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        uri = Settings(runs=folder).tracking_uri
    MlflowClient(uri).search_experiments()  # makes the tables, which takes ten seconds
    shutil.copy(folder / "mlflow.db", folder / "empty.db")
    return uri


@pytest.fixture(autouse=True)
def client(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr("tasks.run.Throttle.ready", lambda _: True)
    return MlflowClient(store)


def preset(name: str) -> Preset:
    return MICRO.model_copy(update={"name": name})


def logged_runs(client: MlflowClient, name: str) -> dict[str | None, MlflowRun]:
    """The runs of a curriculum by stage; its own is at None."""
    experiment = client.get_experiment_by_name(f"envwright/{name}")
    runs = client.search_runs([experiment.experiment_id])
    by_stage = {run.data.tags.get("stage"): client.get_run(run.info.run_id) for run in runs}
    assert len(by_stage) == len(runs), "a run for each stage, and one for the curriculum"
    return by_stage


def trained(run: Run, *steps: int) -> None:
    """Show the training of stage 1, which ends after these steps."""
    progress = TrainingProgress(run, 1)
    for step in steps:
        rates = {"reward": (step - 1) / 4, "rewards/valid/mean": 0.5, "frac_reward_zero_std": 0.25}
        strata = [{"stratum": "3", "valid": step / 8, "zero_variance": 0.5}]
        counts = {"step": step, "steps": 5, "steps_here": step, "tokens_here": 9, "elapsed": 1.0}
        progress(counts | rates | {"strata": strata})


def being_trained(directory: Path, preset: Preset) -> Run:
    """A run with a complete stage 0 and the training data of stage 1."""
    run = with_results(finished_run(directory, (3, 5, 7), preset))
    run.path(MANIFEST, 1).unlink()
    return run


def points(client: MlflowClient, run: MlflowRun, metric: str) -> list[tuple[int, float]]:
    history = client.get_metric_history(run.info.run_id, metric)
    return sorted((entry.step, entry.value) for entry in history)


def test_a_stage_is_logged_once_as_a_run_with_model_and_data_sets(client, store, tmp_path, monkeypatch):
    tested = load_preset("micro", {"name": "chain", "test": {"instances": 1}})
    run = finished_run(tmp_path / "runs" / "chain", (3, 5, 7), tested)
    for stage, other in ((-1, 1), (0, -1), (1, 0)):
        run.write(TEST_ROLLOUTS, run.read(ROLLOUTS, other), stage, tested.prompt_style, tested.environment)
    addresses = log_stages(run, 1)
    runs = logged_runs(client, "chain")
    root = runs[None]
    assert set(runs) == {None, "-1", "0", "1"}
    assert {runs[stage].data.tags["mlflow.parentRunId"] for stage in ("-1", "0", "1")} == {root.info.run_id}
    assert {entry.info.status for entry in runs.values()} == {"FINISHED"}
    assert points(client, root, "valid") == [(0, 0.3), (1, 0.5), (2, 0.7)]
    assert points(client, root, "test/valid") == [(0, 0.7), (1, 0.3), (2, 0.5)]
    assert root.data.params["arm"] == "checkpoint-V6"
    assert root.data.params["preset.trl.learning_rate"] == "0.0001"
    assert len(points(client, runs["0"], "train/reward")) == 5
    assert runs["1"].data.metrics["valid"] == 0.7
    inputs = runs["1"].inputs.dataset_inputs
    contexts = {(data.dataset.name, tag.value) for data in inputs for tag in data.tags}
    assert contexts == {("chain-stage-01", "training"), ("chain-validation", "validation")}
    [model] = [client.get_logged_model(output.model_id) for output in runs["1"].outputs.model_outputs]
    [first] = [output.model_id for output in runs["0"].outputs.model_outputs]
    assert model.tags["parent"] == first
    assert first in [entry.model_id for entry in runs["1"].inputs.model_inputs]
    assert model.tags["digest"] == run.identity(1)
    assert model.tags["dataset_digest"] == run.digest(TRAIN_DATA, 1)
    files = {artifact.path for artifact in client.list_artifacts(runs["1"].info.run_id)}
    assert {"proposal.json", "manifest.json"} <= files
    assert "report.html" in {artifact.path for artifact in client.list_artifacts(root.info.run_id)}
    assert addresses
    assert is_logged(run.directory)
    copy = shutil.copytree(run.directory, tmp_path / "elsewhere" / "chain")
    for directory in (run.directory, copy):
        log_stages(Run(directory=directory, chosen=run.preset), 1)
    after = logged_runs(client, "chain")
    assert [entry.info.run_id for entry in after.values()] == [entry.info.run_id for entry in runs.values()]
    assert points(client, after[None], "valid") == [(0, 0.3), (1, 0.5), (2, 0.7)]
    other = store.replace("mlflow.db", "empty.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", other)
    log_stages(run, 1)
    assert len(logged_runs(MlflowClient(other), "chain")) == 4


def statuses(client: MlflowClient, name: str) -> list[str]:
    """Of the curriculum, of its complete stage 0, and of stage 1."""
    runs = logged_runs(client, name)
    return [runs[stage].info.status for stage in (None, "0", "1")]


def test_a_stage_has_a_run_with_points_that_ends_as_it_does_and_is_resumed_with_it(client, tmp_path: Path):
    run = being_trained(tmp_path / "runs" / "live", preset("live"))
    record_start(run)
    assert logged_runs(client, "live")[None].info.status == "RUNNING"
    with pytest.raises(KeyboardInterrupt), recorded(run):
        trained(run, 1, 2)
        assert statuses(client, "live") == ["RUNNING", "FINISHED", "RUNNING"]
        raise KeyboardInterrupt
    assert statuses(client, "live") == ["KILLED", "FINISHED", "KILLED"]
    runs = logged_runs(client, "live")
    assert points(client, runs["1"], "train/reward") == [(1, 0.0), (2, 0.25)]
    assert points(client, runs["1"], "train/valid/3x3") == [(1, 0.125), (2, 0.25)]
    assert runs["1"].data.metrics["train/zero_variance"] == 0.25
    assert points(client, runs[None], "valid") == [(0, 0.3), (1, 0.5)]
    with pytest.raises(ChildError), recorded(run):
        record_start(run)
        trained(run, 3)
        raise ChildError
    assert statuses(client, "live") == ["FAILED", "FINISHED", "FAILED"]
    record_start(run)
    trained(run, 4, 5)
    run.write(MANIFEST, {"stage": 1, "seconds": {}}, 1)
    assert not is_logged(run.directory)
    log_stages(run, 1)
    after = logged_runs(client, "live")
    assert {entry.info.status for entry in after.values()} == {"FINISHED"}
    assert after["1"].info.run_id == runs["1"].info.run_id
    assert points(client, after["1"], "train/reward") == [(step, (step - 1) / 4) for step in range(1, 6)]


def test_a_comparison_that_is_called_again_has_one_run(client: MlflowClient, tmp_path: Path):
    page = tmp_path / "comparison.html"
    page.write_text("the page")
    calls = [mlflow_log.start_comparison(tmp_path, "compared", "micro") for _ in range(2)]
    for ids, note in zip(calls, ("so far", "at the end"), strict=True):
        mlflow_log.log_comparison(ids, note, [page])
    assert calls[0] == calls[1]
    assert client.get_run(calls[0].run).data.tags["mlflow.note.content"] == "at the end"
    assert [file.path for file in client.list_artifacts(calls[0].run)] == [page.name]


def traced(run: Run, **more: object) -> None:
    """The engineer is asked after stage 0."""
    mlflow_log.end_trace(mlflow_log.start_trace(run, 0), asked(0, shares(0.5), **more))


def test_a_stage_done_again_or_cut_off_has_one_run_with_model_and_traces(client, tmp_path, monkeypatch):
    run = finished_run(tmp_path / "runs" / "again", (3, 5), preset("again"))
    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(mlflow_log, "_ARTIFACTS", (1 / 0 for _ in "x"))
        log_stages(run, 0)
    assert not is_logged(run.directory)
    traced(run)
    log_stages(run, 0)
    first = logged_runs(client, "again")["0"]
    run.write(MANIFEST, {"stage": 0, "seconds": {}, "again": True}, 0)
    mlflow_log.start_curriculum(run)
    traced(run)
    traced(run, attempts=(), fallback="the model could not answer: it is down")
    log_stages(run, 0)
    second = logged_runs(client, "again")["0"]
    assert second.info.run_id != first.info.run_id
    place = [second.info.experiment_id]
    assert len(client.search_logged_models(place)) == 2, "of the base policy and of stage 0"
    failed, answered = client.search_traces(locations=place)
    runs = {trace.info.trace_metadata["mlflow.sourceRun"] for trace in (failed, answered)}
    assert runs == {second.info.run_id}
    assert (failed.info.state.value, answered.info.state.value) == ("ERROR", "OK")
    [span] = answered.data.spans
    assert (span.name, span.inputs["messages"][0]["content"]) == ("design stage 1", "Design after stage 0.")
    assert [attempt["text"] for attempt in span.outputs["attempts"]] == ["{", '{"rationale": "easier"}']
    assert answered.info.token_usage == {"input_tokens": 30, "output_tokens": 12, "total_tokens": 42}
    assert failed.data.spans[0].outputs["fallback"] == "the model could not answer: it is down"


def test_a_failure_of_mlflow_is_a_warning_without_password(tmp_path, monkeypatch, caplog):
    run = being_trained(tmp_path / "runs" / "down", preset("down"))
    with socket.socket() as held:  # bound, and nobody listens
        held.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:hidden@127.0.0.1:{held.getsockname()[1]}")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        monkeypatch.setattr("tasks.record._log_stages", log_stages)  # without retries
        with caplog.at_level(logging.WARNING, "envwright"):
            record_start(run)
            trained(run, 1, 2, 3)
            assert mlflow_log.start_trace(run, 1) is None
            assert caplog.text.count("not logged") == 1, "nothing more is tried in this stage"
            assert record_stages(run, 0) == {}
    assert not is_logged(run.directory)
    assert "stage 0: not logged to MLflow at http://127.0.0.1" in caplog.text
    assert "hidden" not in caplog.text

    monkeypatch.setattr("tasks.record._log_stages", lambda *_: {}["inside of MLflow"])
    assert record_stages(run, 0) == {}
