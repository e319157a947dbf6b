"""`envwright approve`: what it takes for a decision."""

from pathlib import Path

import pytest
from factories import MICRO, finished_run
from prefect.settings import PREFECT_API_URL, temporary_settings
from typer.testing import CliRunner

from envgen.errors import ConfigError, RunDirectoryError
from flows.cli import app
from infra.runs.next_config import SUSPENDED
from infra.runs.run import Run, open_run


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose stage 0 has proposed."""
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    directory, preset = tmp_path / "runs" / "mine", MICRO.model_copy(update={"approval": "required"})
    finished_run(directory, (4, 5), preset)
    preset = preset.model_copy(update={"stages": 2})
    return open_run(directory, preset)


@pytest.mark.parametrize(
    ("options", "typed", "decides"),
    [([], "", False), ([], "n\n", False), ([], "\n", False), ([], "y\n", True), (["--yes"], "", True)],
)
def test_only_a_yes_decides(run: Run, options: list[str], typed: str, decides: bool):
    said = CliRunner().invoke(app, ["approve", "mine", *options], input=typed)
    assert said.exit_code == (0 if decides else 1), said.output
    assert (run.decision(0) is not None) is decides


def test_edits_are_part_of_the_decision_and_an_edit_of_what_is_not_there_is_refused(run: Run):
    for edit, complaint in (("4=0.3", "expected STRATUM"), ("9.data_ratio=1", "map size 9")):
        said = CliRunner().invoke(app, ["approve", "mine", "--yes", "--set", edit])
        assert isinstance(said.exception, ConfigError)
        assert complaint in str(said.exception)
        assert run.decision(0) is None
    said = CliRunner().invoke(app, ["approve", "mine", "--yes", "--set", "4.wait_ratio=0.5"])
    assert said.exit_code == 0, said.output
    decision = run.decision(0)
    assert (decision.edited, decision.config.strata["4"]["wait_ratio"]) == (True, 0.5)


@pytest.mark.parametrize("note", ["{", "[]", '{"flow_run": "x"}'])
def test_a_damaged_note_of_the_suspended_run_costs_the_resumption_only(run: Run, note: str):
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
