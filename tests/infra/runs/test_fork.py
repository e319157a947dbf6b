import os
from pathlib import Path

import pytest

from infra.config.preset import load_preset
from infra.runs import fork as forking
from infra.runs.fork import fork
from infra.runs.run import open_run
from infra.runs.steps import intact, run_step

OWN = {"gate": ("gate.json",), "engineer": ("proposal.json", "engineer_state.json")}
STAGE = {"generate": ("config.json", "train.parquet"), "train": ("checkpoint", "train_log.parquet")}
STAGE |= {"evaluate": ("rollouts.parquet",), "summarize": ("breakdown.json",), **OWN}
START = {"start": ("rollouts.parquet", "breakdown.json")}
STEPS = {"": {"validation": ("validation.parquet",)}, "start": START, "stage-00": STAGE}
SHARED = [(part, step) for part, steps in STEPS.items() for step in steps if step not in OWN]


def finish(run: Path, part: str, step: str) -> bool:
    """Do a step if it is not done; whether it was done already."""
    directory, names = run / part, STEPS[part][step]

    def body() -> None:
        for name in names:
            file = directory / name / "weights" if name == "checkpoint" else directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            file.write_text(f"{step} {name}")

    return run_step(directory, step, {"seed": 0}, names, body).reused


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    run = tmp_path / "shared"
    for part, steps in STEPS.items():
        for step in steps:
            finish(run, part, step)
    for name in ("manifest.json", "logs/training.log"):
        (run / "stage-00" / name).parent.mkdir(exist_ok=True)
        (run / "stage-00" / name).write_text("of the shared run")
    return run


PRESET = load_preset("micro", {"engineer.name": "random", "seed": 7})


@pytest.mark.parametrize("can_link", [True, False])
def test_a_fork_has_the_steps_of_a_shared_stage_but_no_redesign(shared, tmp_path, monkeypatch, can_link):
    def refuse(*_: object) -> None:
        raise OSError("links are not supported")

    if not can_link:
        monkeypatch.setattr(os, "link", refuse)
    run = tmp_path / "random-s7"
    fork(shared, run, PRESET)
    assert (run / "validation.parquet").samefile(shared / "validation.parquet") == can_link
    assert all(finish(run, part, step) for part, step in SHARED)
    for name in ("gate.json", "proposal.json", "engineer_state.json", "manifest.json", "logs"):
        assert (shared / "stage-00" / name).exists()
        assert not (run / "stage-00" / name).exists()
    assert not any(finish(run, "stage-00", step) for step in OWN)
    opened = open_run(run, PRESET)
    assert (opened.name, opened.preset) == ("random-s7", PRESET)


def test_the_test_set_and_its_rollouts_are_shared_by_runs_that_have_one(shared: Path, tmp_path: Path):
    made = ("", "test-set", "test.parquet"), ("stage-00", "test", "test_rollouts.parquet")

    def done(run: Path, part: str, step: str, name: str) -> bool:
        return run_step(run / part, step, {}, (name,), lambda: (run / part / name).touch()).reused  # type: ignore[func-returns-value]

    for each in made:
        done(shared, *each)
    fork(shared, tmp_path / "with", load_preset("micro", {"test": {}}))
    assert all(done(tmp_path / "with", *each) for each in made)
    fork(shared, tmp_path / "without", PRESET)
    assert not list((tmp_path / "without").rglob("*test*"))
    assert intact(tmp_path / "without" / "stage-00")


@pytest.mark.parametrize("name", ["rollouts.parquet", "checkpoint/weights"])
def test_a_damaged_copy_is_done_again_and_the_shared_run_keeps_its_own(shared: Path, tmp_path, name: str):
    fork(shared, tmp_path / "fork", PRESET)
    path = tmp_path / "fork" / "stage-00" / name
    path.unlink()
    path.write_text("damaged")
    step = "train" if "checkpoint" in name else "evaluate"
    assert not finish(tmp_path / "fork", "stage-00", step)
    assert all(finish(shared, part, one) for part, one in SHARED)


def test_a_fork_that_was_cut_off_leaves_no_run(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(forking.files, "Curriculum", lambda **_: 1 / 0)
        fork(shared, tmp_path / "fork", PRESET)
    assert not (tmp_path / "fork").exists()
    fork(shared, tmp_path / "fork", PRESET)
    assert all(finish(tmp_path / "fork", part, step) for part, step in SHARED)
    (tmp_path / "other").mkdir()
    fork(shared, tmp_path / "other", PRESET)
    assert list((tmp_path / "other").iterdir()) == [], "a run that is there is left alone"
