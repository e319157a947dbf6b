from pathlib import Path

import pytest

from envgen.errors import ConfigError
from envgen.files import write_json
from infra.config.preset import load_preset
from infra.runs.files import MANIFEST
from infra.runs.run import open_run
from tasks import remote as tasks_remote
from tasks.remote import copy_run, fetch_run, remote_of


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch):
    """Call the tasks' own functions: no Prefect server is needed for what they do."""
    for name in ("_fetch", "_copy"):
        monkeypatch.setattr(tasks_remote, name, getattr(tasks_remote, name).fn)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "here" / "mine"
    open_run(directory, load_preset("micro"))
    write_json(directory / "stage-00" / MANIFEST.name, {"files": {}})
    return directory


def test_a_remote_that_is_down_costs_a_warning_and_the_next_copy_sends_all(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("ENVWRIGHT_REMOTE", "file:///dev/null/copies")
    copy_run(run)
    assert "not copied to file:///dev/null/copies" in caplog.text
    assert "goes with the next stage" in caplog.text
    monkeypatch.setenv("ENVWRIGHT_REMOTE", (tmp_path / "copies").as_uri())
    copy_run(run)
    back = tmp_path / "there" / "mine"
    fetch_run(back)
    assert (back / "stage-00" / MANIFEST.name).exists()


def test_a_store_that_cannot_be_reached_stops_no_run(run: Path, monkeypatch, caplog):
    pytest.importorskip("s3fs", reason="s3fs is not installed (pip install -e '.[s3]')")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_MAX_ATTEMPTS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("ENVWRIGHT_REMOTE", "s3://bucket/copies")
    fetch_run(run)
    assert "nothing fetched from s3://bucket/copies" in caplog.text
    assert "the run goes on with what is here" in caplog.text


def test_a_remote_that_can_never_work_is_refused_at_the_start(run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ENVWRIGHT_REMOTE", "nowhere://me:hidden@x")
    with pytest.raises(ConfigError, match="ENVWRIGHT_REMOTE") as refused:
        fetch_run(run)
    assert "hidden" not in str(refused.value)


def test_the_runs_of_two_comparisons_keep_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("ENVWRIGHT_REMOTE", "s3://bucket/copies/")
    assert remote_of(tmp_path / "runs" / "alone") == "s3://bucket/copies"
    assert remote_of(tmp_path / "runs" / "comparison" / "random-s0") == "s3://bucket/copies/comparison"
    assert remote_of(tmp_path / "elsewhere" / "run") == "s3://bucket/copies"
    monkeypatch.delenv("ENVWRIGHT_REMOTE")
    assert remote_of(tmp_path / "runs" / "alone") is None
