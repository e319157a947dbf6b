"""`envwright runs` and `show`: what the files of runs say."""

import json
import logging
import os
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from factories import published
from typer.testing import CliRunner

from flows.cli import app
from infra.run_status import RunState, read_status, run_directories, run_status
from infra.runs.files import PROPOSAL
from infra.runs.lock import exclusive
from infra.runs.next_config import decided, store_decision
from infra.runs.run import Run
from infra.runs.run_log import kept_log
from tasks.run import log


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Path:
    caplog.set_level(logging.INFO, "envwright")
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path / "runs"


def said(*command: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(command))
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout


def test_what_state_a_run_is_in_is_told_from_its_files(folder: Path):
    assert run_status(published(folder / "a", 2, 2).directory).state is RunState.FINISHED
    cut_off = published(folder / "b", 1, 2)
    assert run_status(cut_off.directory).state is RunState.CUT_OFF
    waiting = published(folder / "c", 1, 2, "required")
    assert run_status(waiting.directory).state is RunState.WAITING
    seen = waiting.digest(PROPOSAL, 0)
    store_decision(waiting, decided(waiting, 0, "stop", via="shell", seen=seen))
    assert run_status(waiting.directory).state is RunState.STOPPED
    with exclusive(cut_off.directory):
        assert run_status(cut_off.directory).state is RunState.RUNNING
    assert run_status(cut_off.directory).state is RunState.CUT_OFF
    (cut_off.directory / "results.json").write_text("{")
    broken = run_status(cut_off.directory)
    assert broken.state is RunState.UNREADABLE
    assert "results.json" in broken.reason


def test_runs_lists_those_of_comparisons_too_and_the_last_changed_last(folder: Path):
    assert "no run there yet" in said("runs")
    published(folder / "old", 1, 2)
    published(folder / "compare-micro" / "random-s0", 2, 2)
    for path in (folder / "old").rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    (folder / "benchmarks" / "x").mkdir(parents=True)
    listed = json.loads(said("runs", "--json"))
    assert [(one["name"], one["state"]) for one in listed] == [
        ("old", "cut off"),
        ("compare-micro/random-s0", "finished"),
    ]
    assert listed[0]["changed"].startswith("2001-")
    printed = said("runs")
    assert "1 of 2" in printed
    assert "2 of 2" in printed
    assert list(run_directories(folder)) == [folder / "compare-micro" / "random-s0", folder / "old"]
    assert said("show", "compare-micro/random-s0").startswith("compare-micro/random-s0: finished")


def test_a_narrow_terminal_breaks_no_name_and_a_pipe_has_whole_lines(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    name = "compare-tiny-learning/checkpoint-V6W-s0"
    published(folder / name, 2, 2)
    monkeypatch.setenv("COLUMNS", "40")
    [row] = (line for line in said("runs").splitlines() if name in line)
    assert all(cell in row for cell in ("2 of 2", "finished", "60.0 ["))
    for variable, value in {"TERM": "dumb", "TTY_COMPATIBLE": "1", "COLUMNS": "80", "LINES": "25"}.items():
        monkeypatch.setenv(variable, value)
    printed = said("runs")
    assert name in printed
    assert "2 of 2" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_status_tells_the_rates_and_what_was_spent(folder: Path):
    published(folder / "mine", 2, 2)
    detail = json.loads(said("show", "mine", "--json"))
    assert detail["valid"]["value"] == 0.6
    made = detail["made"]
    # 20 answers of the base policy have 3 tokens each.
    assert (made["seconds"], made["tokens"]) == (120.0, 2 * 500 + 20 * 3)
    printed = said("show", "mine")
    assert "spent on complete stages: 2 min, 1.1k tokens" in printed
    assert "stage 1" in printed


def test_the_commands_that_status_names_go_on_with_the_run_or_its_comparison(folder: Path):
    run = published(folder / "mine", 1, 2, "required")
    detail = read_status(run.directory)
    assert detail.commands == ("envwright approve mine", "envwright reject mine", "envwright run mine")
    said("approve", "mine", "--yes")
    assert read_status(run.directory).commands == ("envwright run mine",)
    assert "envwright run mine" in said("show", "mine", "--watch", code=1), "nobody works on it"
    run = published(folder / "compare-micro" / "random-s0", 1, 2)
    (folder / "compare-micro" / "comparison.json").write_text("{}")
    assert read_status(run.directory).commands == ("envwright compare compare-micro",)


def test_watch_follows_what_a_run_says_until_it_ends(folder: Path, monkeypatch: pytest.MonkeyPatch):
    run = published(folder / "mine", 1, 2, "required")
    with ExitStack() as work:
        work.enter_context(exclusive(run.directory))
        work.enter_context(kept_log(run))
        log.info("said before")
        meanwhile = iter([lambda: log.info("step 3 of 4\nforged line"), work.close])
        clock = SimpleNamespace(time=time.time, sleep=lambda _: next(meanwhile)())
        monkeypatch.setattr("flows.commands.runs_cli.time", clock)
        first, *rest = said("show", "mine", "--watch", code=3).splitlines()
    assert first.endswith("  step 3 of 4 forged line")
    assert "said before" not in first
    assert rest[0].startswith("mine: waiting for a decision, 1 of 2 stages")
    assert read_status(run.directory).last == first


def test_the_log_of_a_run_is_kept_with_the_error_that_ends_it(folder: Path):
    run = Run(directory=folder)
    with kept_log(run):
        log.info("first")
    with pytest.raises(ZeroDivisionError), kept_log(run):
        log.warning("second")
        raise ZeroDivisionError("engineer mine: 1 / 0\nTraceback")
    log.info("not this")
    kept = run.log("run").read_text().splitlines()
    assert [line.split("  ")[1] for line in kept] == ["first", "second", "stopped: engineer mine: 1 / 0"]
