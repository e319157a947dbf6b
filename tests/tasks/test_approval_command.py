"""`envwright approve`: what it takes for a decision."""

from pathlib import Path

import pytest
from factories import MICRO, finished_run
from prefect.settings import PREFECT_API_URL, temporary_settings
from typer.testing import CliRunner

from envgen.errors import RunDirectoryError
from flows.approval import SUSPENDED
from flows.cli import app
from infra.runs.run import RunRef, open_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRef:
    """A run whose stage 0 has proposed."""
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    directory, preset = tmp_path / "runs" / "mine", MICRO.model_copy(update={"approval": "required"})
    finished_run(directory, (4, 5), preset)
    preset = preset.model_copy(update={"stages": 2})
    return RunRef(directory=directory, preset=open_run(directory, preset).preset)


@pytest.mark.parametrize("typed", ["", "n\n", "\n"], ids=["nothing", "no", "an empty line"])
def test_without_a_terminal_too_only_a_yes_decides(run: RunRef, typed: str):
    said = CliRunner().invoke(app, ["approve", "mine"], input=typed)
    assert said.exit_code == 1
    assert run.decision(0) is None


@pytest.mark.parametrize(("arguments", "typed"), [((), "y\n"), (("--yes",), "")])
def test_a_yes_decides(run: RunRef, arguments: tuple[str, ...], typed: str):
    said = CliRunner().invoke(app, ["approve", "mine", *arguments], input=typed)
    assert said.exit_code == 0, said.output
    assert run.decision(0) is not None


@pytest.mark.parametrize("note", ["{", "[]", '{"flow_run": "x"}'])
def test_a_damaged_note_of_the_suspended_run_costs_the_resumption_only(run: RunRef, note: str):
    (run.directory / SUSPENDED).write_text(note)
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        said = CliRunner().invoke(app, ["approve", "mine", "--yes"])
    assert said.exit_code == 0, said.output
    assert "resume or retry the flow run there" in " ".join(said.output.split())
    assert run.decision(0) is not None


@pytest.mark.parametrize("command", ["approve", "reject"])
def test_nothing_is_decided_on_a_finished_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str):
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    run = finished_run(tmp_path / "runs" / "mine", (4, 5, 6))
    said = CliRunner().invoke(app, [command, "mine", "--yes"])
    assert isinstance(said.exception, RunDirectoryError)
    assert "is finished with stage 1 (2 of 2)" in str(said.exception)
    assert run.decision(1) is None
