"""A run killed at its steps, and extended by a stage, has data, weights and proposals of an unkilled run."""

import json
from pathlib import Path

import pytest
from support.envwright_command import envwright, killed_once
from support.finished_run import NAME, FinishedRun
from test_golden import GOLDEN, summary

from envgen.files import file_digest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MID_TRAINING = "stage-01/work/*/checkpoint-*/trainer_state.json"


def kill_points(unkilled: Path) -> list[str]:
    """Return patterns of files, in the order in which stage 1 makes them: a kill follows each.

    A step makes its lock file when it begins. After the steps comes the manifest.
    """
    locks = sorted(unkilled.glob("stage-01/.steps/*.lock"), key=lambda path: path.stat().st_mtime_ns)
    steps = [str(path.relative_to(unkilled)) for path in locks]
    steps.insert(steps.index("stage-01/.steps/train.lock") + 1, MID_TRAINING)
    return [*steps, "stage-01/manifest.json"]


def step_outputs(run: Path) -> dict[str, dict[str, str]]:
    """Return the digests that each step recorded, without files that hold times."""
    timed = {"train_log.parquet", "proposal.json"}
    records = {
        str(path.relative_to(run)): json.loads(path.read_text()) for path in run.glob("**/.steps/*.json")
    }
    return {
        name: {file: sha for file, sha in record["outputs"].items() if file not in timed}
        for name, record in records.items()
    }


def test_a_run_extended_and_killed_at_each_step_ends_like_an_unkilled_one(
    finished: FinishedRun, server: str, tmp_path: Path
):
    run = tmp_path / "runs" / NAME
    envwright(tmp_path, "run", "micro", "--stages", "1", PREFECT_API_URL=server)
    first = (run / "stage-00" / "manifest.json").read_bytes()
    kills = []
    for point in kill_points(finished.directory):
        if any(run.glob(point)):  # an earlier kill came later than its point
            continue
        killed_once(
            lambda point=point: any(run.glob(point)), tmp_path, "run", "micro", PREFECT_API_URL=server
        )
        kills.append(point)
    envwright(tmp_path, "run", "micro", PREFECT_API_URL=server)

    assert (run / "stage-00" / "manifest.json").read_bytes() == first
    assert {"validation.parquet", "results.json", "report.html"} <= {path.name for path in run.iterdir()}
    assert MID_TRAINING in kills
    assert len(kills) >= 6
    assert step_outputs(run) == step_outputs(finished.directory)
    # The first question said that stage 0 is the last one.
    ours, golden = json.loads(json.dumps(summary(run))), json.loads(json.dumps(GOLDEN["micro"]))
    del ours["proposals"][0]["prompt"], golden["proposals"][0]["prompt"]
    assert ours == golden
    stage = run / "stage-01"
    assert "resuming from checkpoint-" in (stage / "logs" / "training.log").read_text()
    assert len(json.loads((stage / "manifest.json").read_text())["resumed"]) == 1
    assert not (stage / "work").exists()
    assert file_digest(stage / "checkpoint") == file_digest(finished.directory / "stage-01" / "checkpoint")
    assert not list(run.glob("**/*.partial*")), "no half-written files are left"
