"""What MLflow holds of a curriculum once its stages are logged: in a database, and on a server."""

import logging
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from factories import MICRO, asked, finished_run, instances, shares
from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun
from support.prefect_servers import free_port, served

from infra.config.preset import Preset
from infra.lineage import log as lineage_log
from infra.lineage.log import comparison_run, log_comparison, log_stages
from infra.lineage.store import is_logged
from infra.runs.files import MANIFEST, TRAIN_DATA
from infra.runs.run import RunRef
from tasks.lineage import record_lineage

on_a_server_too = pytest.mark.parametrize(
    "store", ["database", pytest.param("server", marks=pytest.mark.slow)], indirect=True
)


@pytest.fixture(scope="session")
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A tracking URI."""
    folder = tmp_path_factory.mktemp("store")
    database = f"sqlite:///{folder}/mlflow.db"
    if getattr(request, "param", "database") == "database":
        yield database
        return
    port = str(free_port())
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1"]
    command += ["--port", port, "--backend-store-uri", database]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    uri, settings = f"http://127.0.0.1:{port}", {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with served(command, f"{uri}/health", folder / "server.log", **settings):
        yield uri


@pytest.fixture(autouse=True)
def client(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    return MlflowClient(store)


def preset(name: str, **design: object) -> Preset:
    return MICRO.model_copy(update={"name": name, "engineer": MICRO.engineer.model_copy(update=design)})


def logged_runs(client: MlflowClient, name: str) -> dict[int | None, MlflowRun]:
    """The runs of a curriculum by stage; its own is at None."""
    experiment = client.get_experiment_by_name(f"envwright/{name}")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    numbers = [run.data.tags.get("stage") for run in runs]
    assert len(set(numbers)) == len(numbers), "a run for each stage, and one for the curriculum"
    return {
        None if number is None else int(number): client.get_run(run.info.run_id)
        for number, run in zip(numbers, runs, strict=True)
    }


def points(client: MlflowClient, run: MlflowRun, metric: str) -> list[tuple[int, float]]:
    history = client.get_metric_history(run.info.run_id, metric)
    return sorted((entry.step, entry.value) for entry in history)


@on_a_server_too
def test_a_curriculum_is_a_run_with_a_run_a_model_and_data_sets_for_each_stage(
    client: MlflowClient, tmp_path: Path
):
    run = finished_run(tmp_path / "runs" / "chain", (3, 5, 7), preset("chain"))
    addresses = log_stages(run, 1)
    runs = logged_runs(client, "chain")
    root = runs[None]
    assert set(runs) == {None, -1, 0, 1}
    assert {runs[number].data.tags["mlflow.parentRunId"] for number in (-1, 0, 1)} == {root.info.run_id}
    assert {entry.info.status for entry in runs.values()} == {"FINISHED"}
    assert points(client, root, "valid") == [(0, 0.3), (1, 0.5), (2, 0.7)]
    assert root.data.params["engineer variant"] == "checkpoint-V6"
    assert root.data.params["preset.trl.learning_rate"] == "0.0001"
    assert len(points(client, runs[0], "train/reward")) == 5
    assert runs[1].data.metrics["valid"] == 0.7
    assert {data.dataset.name for data in runs[1].inputs.dataset_inputs} == {
        "chain-stage-01",
        "chain-validation",
    }
    [model] = [client.get_logged_model(output.model_id) for output in runs[1].outputs.model_outputs]
    [first] = [output.model_id for output in runs[0].outputs.model_outputs]
    assert model.tags["parent"] == first
    assert first in [entry.model_id for entry in runs[1].inputs.model_inputs]
    assert model.tags["digest"] == run.identity(1)
    assert model.tags["dataset_digest"] == run.digest(TRAIN_DATA, 1)
    files = {artifact.path for artifact in client.list_artifacts(runs[1].info.run_id)}
    assert {"proposal.json", "manifest.json"} <= files
    assert "report.html" in {artifact.path for artifact in client.list_artifacts(root.info.run_id)}
    assert addresses


def test_a_comparison_that_is_called_again_has_each_point_once(client: MlflowClient, tmp_path: Path):
    ids = comparison_run(tmp_path, "compared", {}, "micro")
    for last in (0.75, 0.75, 0.5):
        log_comparison(ids, {"valid/fixed": [(0, 0.25), (1, last)]}, "so far", [])
    run = client.get_run(ids.run)
    assert points(client, run, "valid/fixed") == [(0, 0.25), (1, 0.5), (1, 0.75)]
    assert run.data.metrics["valid/fixed"] == 0.5


def test_a_logged_stage_is_not_logged_again(client: MlflowClient, tmp_path: Path):
    run = finished_run(tmp_path / "runs" / "twice", (3, 5, 7), preset("twice"))
    log_stages(run, 1)
    before = {number: entry.info.run_id for number, entry in logged_runs(client, "twice").items()}
    log_stages(run, 1)
    after = logged_runs(client, "twice")
    assert {number: entry.info.run_id for number, entry in after.items()} == before
    assert points(client, after[None], "valid") == [(0, 0.3), (1, 0.5), (2, 0.7)]
    assert is_logged(run.directory)


def test_a_stage_that_was_done_again_or_cut_off_replaces_what_was_logged(
    client: MlflowClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = finished_run(tmp_path / "runs" / "again", (3, 5), preset("again"))
    monkeypatch.setattr(lineage_log, "log_trace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        log_stages(run, 0)
    assert not is_logged(run.directory)
    monkeypatch.undo()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", client.tracking_uri)
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    log_stages(run, 0)
    first = logged_runs(client, "again")[0]
    run.write(MANIFEST, {"stage": 0, "seconds": {}, "again": True}, 0)
    log_stages(run, 0)
    second = logged_runs(client, "again")[0]
    assert second.info.run_id != first.info.run_id
    experiment = second.info.experiment_id
    assert len(client.search_logged_models([experiment])) == 2, "of the base policy and of stage 0"
    assert len(client.search_traces(locations=[experiment])) == 1


def test_a_copy_of_the_run_directory_keeps_its_records_and_a_new_store_gets_them_all(
    client: MlflowClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = finished_run(tmp_path / "runs" / "moved", (3, 5), preset("moved"))
    log_stages(run, 0)
    there = shutil.copytree(run.directory, tmp_path / "elsewhere" / "moved")
    log_stages(RunRef(directory=there, preset=run.preset), 0)
    assert len(logged_runs(client, "moved")) == 3
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/other.db")
    log_stages(run, 0)
    assert len(logged_runs(MlflowClient(f"sqlite:///{tmp_path}/other.db"), "moved")) == 3


def test_rates_are_logged_by_stratum_and_by_label(client: MlflowClient, tmp_path: Path):
    posed = instances(agents=2)[:10] + instances(agents=3)[10:]
    run = finished_run(tmp_path / "runs" / "rates", (3, 5), preset("rates"), validation=posed)
    log_stages(run, 0)
    metrics = logged_runs(client, "rates")[0].data.metrics
    groups = {"", "/3x3", "/4x4", "/with-wait_required", "/without-wait_required"}
    assert {name for name in metrics if not name.startswith("train/")} == {
        rate + group for rate in ("valid", "optimal") for group in groups
    }
    waiting = [number % 10 < 5 for number, instance in enumerate(posed) if instance.solution.wait_required]
    assert metrics["valid/with-wait_required"] == pytest.approx(sum(waiting) / len(waiting))


def test_a_run_takes_the_time_that_its_stage_took(client: MlflowClient, tmp_path: Path):
    run = finished_run(tmp_path / "runs" / "timed", (3, 5), preset("timed"))
    seconds = {"train": 60.0, "evaluate": 30.0}
    run.write(MANIFEST, {"finished": "2026-01-02T03:10:00+00:00", "seconds": seconds}, 0)
    log_stages(run, 0)
    logged = logged_runs(client, "timed")[0].info
    assert (logged.end_time - logged.start_time) / 1000 == 90


@on_a_server_too
def test_a_design_call_is_a_trace_with_a_span_for_each_answer(client: MlflowClient, tmp_path: Path):
    run = finished_run(tmp_path / "runs" / "traced", (3, 5), preset("traced"))
    log_stages(run, 0)
    stage = logged_runs(client, "traced")[0]
    [trace] = client.search_traces(locations=[stage.info.experiment_id], run_id=stage.info.run_id)
    root, *calls = sorted(trace.data.spans, key=lambda span: (span.parent_id is not None, span.start_time_ns))
    assert [(span.name, span.span_type, span.status.status_code.value) for span in (root, *calls)] == [
        ("design stage 1", "AGENT", "OK"),
        ("answer 1", "CHAT_MODEL", "ERROR"),
        ("answer 2", "CHAT_MODEL", "OK"),
    ]
    seconds = [((span.end_time_ns or 0) - span.start_time_ns) / 1e9 for span in (root, *calls)]
    assert seconds == [2.5, 1.5, 0.5]
    assert [message["role"] for message in calls[1].inputs["messages"]] == ["user", "assistant", "user"]
    assert calls[0].outputs == {"content": "{", "error": "no JSON"}
    assert trace.info.token_usage == {"input_tokens": 30, "output_tokens": 12, "total_tokens": 42}
    [model] = [output.model_id for output in stage.outputs.model_outputs]
    assert trace.info.trace_metadata["mlflow.modelId"] == model, "the checkpoint answered"


def test_a_design_call_that_failed_is_a_trace_too(client: MlflowClient, tmp_path: Path):
    silent = asked(0, shares(0.5), attempts=(), fallback="the model could not answer: it is down")
    run = finished_run(tmp_path / "runs" / "failed", (3, 5), preset("failed"), proposals=(silent,))
    log_stages(run, 0)
    stage = logged_runs(client, "failed")[0]
    [trace] = client.search_traces(locations=[stage.info.experiment_id], run_id=stage.info.run_id)
    assert trace.info.state.value == "ERROR"


def test_a_failure_of_mlflow_is_a_warning_without_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    run = finished_run(tmp_path / "runs" / "down", (3, 5), preset("down"))
    with socket.socket() as held:  # bound, and nobody listens
        held.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:hidden@127.0.0.1:{held.getsockname()[1]}")
        monkeypatch.setattr("tasks.lineage._log_stages", log_stages)  # without retries
        with caplog.at_level(logging.WARNING, "envwright"):
            assert record_lineage(run, 0) == {}
    assert not is_logged(run.directory)
    assert "stage 0: not logged to MLflow at http://127.0.0.1" in caplog.text
    assert "hidden" not in caplog.text

    def broken(*_: object) -> dict[str, str]:
        raise KeyError("inside of MLflow")

    monkeypatch.setattr("tasks.lineage._log_stages", broken)
    assert record_lineage(run, 0) == {}
