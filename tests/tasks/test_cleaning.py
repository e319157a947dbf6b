"""`envwright clean`: what it lists, what it removes, and what it leaves alone."""

import json
from pathlib import Path

import pytest
from finished_runs import published
from typer.testing import CliRunner

from flows.cli import app
from infra.analysis.run_status import RunState, run_status
from infra.runs.lease import exclusive
from infra.runs.run import RunRef

DEAD = 2**22 + 1
"""The number of no process: Linux has fewer."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path / "runs"


def worked_on(directory: Path, stages: int) -> RunRef:
    """A run of two stages, with all that its processes left beside the results."""
    run = published(directory, stages, 2)
    for name in (
        "logs/run.log",
        "stage-00/logs/training.log",
        "stage-00/work/checkpoint-3/model.safetensors",
        "stage-00/rollouts.partial.jsonl",
        f"stage-00/.gate.json.{DEAD}.partial",
    ):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("12345678")
    return run


def said(*command: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["clean", *command])
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout


def listed(*command: str) -> dict[str, str]:
    """Path in the run's directory -> what its removal costs."""
    found = json.loads(said("--json", *command))
    return {one["path"].removeprefix(one["directory"] + "/"): one["costs"] for one in found}


def files(directory: Path) -> set[Path]:
    return {path for path in directory.rglob("*") if path.is_file()}


NEEDED = {"stage-00/work", "stage-00/rollouts.partial.jsonl"}
LOGS = {"logs", "stage-00/logs"}


def test_a_finished_run_is_rid_of_its_logs_and_work_files(folder: Path):
    run = worked_on(folder / "mine", 2)
    before = files(run.directory)
    costs = listed()
    assert set(costs) == {*NEEDED, *LOGS, f"stage-00/.gate.json.{DEAD}.partial"}
    assert {costs[name] for name in NEEDED} == {"nothing"}
    assert files(run.directory) == before, "listing removes nothing"
    assert "40 B could be removed: --yes does it" in said().replace("\u00a0", " ")
    said("--yes")
    assert before - files(run.directory) == {
        path for path in before if path.suffix in (".log", ".jsonl", ".partial") or "work" in path.parts
    }
    assert run_status(run.directory).state is RunState.FINISHED
    assert "nothing to remove" in said()


def test_what_resuming_needs_goes_only_if_the_run_is_named(folder: Path):
    run = worked_on(folder / "mine", 1)
    assert set(listed()) == {f"stage-00/.gate.json.{DEAD}.partial"}
    said("--yes")
    assert (run.stage(0).work / "checkpoint-3" / "model.safetensors").exists()
    costs = listed("mine")
    assert set(costs) == {*NEEDED, *LOGS}
    assert costs["stage-00/work"] == "stage-00 is trained from its first step"
    said("mine", "--yes")
    assert not run.stage(0).work.exists()
    assert run_status(run.directory).state is RunState.CUT_OFF


def test_a_run_that_a_process_works_on_is_left_alone(folder: Path):
    run = worked_on(folder / "mine", 2)
    before = files(run.directory)
    with exclusive(run.directory):
        before -= {path for path in before if path.suffix == ".partial"}  # taking the lease sweeps
        for command in ([], ["mine"], ["mine", "--whole"]):
            assert "left alone, process" in said(*command, "--yes")
    assert files(run.directory) == before
    (folder / "comparison.json").write_text("{}")
    with exclusive(folder):
        assert "left alone, process" in said("mine", "--whole", "--yes")
    assert files(run.directory) == before


def test_a_whole_run_goes_only_if_it_is_named_and_nothing_else_with_it(folder: Path):
    worked_on(folder / "mine", 2)
    other = worked_on(folder / "other", 2)
    before = files(other.directory)
    with pytest.raises(Exception, match="--whole: removes all of the runs that are named"):
        CliRunner().invoke(app, ["clean", "--whole", "--yes"], catch_exceptions=False)
    assert "all of it" in said("mine", "--whole")
    assert (folder / "mine").exists()
    said("mine", "--whole", "--yes")
    assert not (folder / "mine").exists()
    assert files(other.directory) == before


def test_a_whole_comparison_goes_with_its_curricula(folder: Path):
    worked_on(folder / "compared" / "random-s0", 2)
    (folder / "compared" / "comparison.json").write_text("{}")
    [one] = json.loads(said("compared", "--whole", "--json", "--yes"))
    assert one["run"] == "compared"
    assert not (folder / "compared").exists()


def test_a_folder_of_something_else_is_never_cleaned(folder: Path):
    (folder / "thesis").mkdir(parents=True)
    (folder / "thesis" / "thesis.tex").write_text("")
    with pytest.raises(Exception, match="no run or comparison there"):
        CliRunner().invoke(app, ["clean", "thesis", "--whole", "--yes"], catch_exceptions=False)
    assert (folder / "thesis" / "thesis.tex").exists()
