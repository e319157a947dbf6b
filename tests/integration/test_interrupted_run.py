"""A run that was cut off, by a kill or by a full disk, goes on where it was and gives the same data and
weights."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.envwright_command import environment, envwright, killed_once
from support.finished_run import NAME, FinishedRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
WRITE_ROLLOUTS = """
import sys
from pathlib import Path
from envgen.mapf.prompts import PromptStyle
from policy.rollouts import read_rollouts, write_rollouts
stage = Path(sys.argv[1])
many = read_rollouts(stage.parent / "stage-00" / "rollouts.parquet") * 40
write_rollouts(stage / "rollouts.parquet", many, PromptStyle.COMPACT)
"""


def manifest(run: Path) -> dict:
    return json.loads((run / "stage-00" / "manifest.json").read_text())


def test_a_run_killed_in_the_middle_of_training_ends_with_the_same_data_and_weights(
    finished: FinishedRun, tmp_path: Path
):
    run = tmp_path / "runs" / NAME
    command = ["run", "micro", "--stages", "1", "--set", "trl.save_steps=1"]
    killed_once(lambda: list(run.glob("stage-00/work/*/checkpoint-*/trainer_state.json")), tmp_path, *command)
    assert not (run / "stage-00" / "manifest.json").exists()
    envwright(tmp_path, *command)
    assert "resuming from checkpoint-" in (run / "stage-00" / "logs" / "training.log").read_text()
    resumed, whole = manifest(run), manifest(finished.directory)
    for name in ("config.json", "train.parquet", "checkpoint"):
        assert resumed["files"][name] == whole["files"][name]
    assert [resume["exact"] for resume in resumed["resumed"]] == [True]
    assert resumed["keys"]["generate"] == whole["keys"]["generate"]


def test_a_full_disk_leaves_the_stage_incomplete_and_resumable(
    finished: FinishedRun, server: str, tmp_path: Path
):
    stage = finished.copy_to(tmp_path) / "stage-01"
    for name in (".steps/evaluate.json", "manifest.json", "rollouts.parquet"):
        (stage / name).unlink()
    # A limit on the size of files stands for a disk that fills up while rollouts are written.
    limited = [
        "bash",
        "-c",
        'ulimit -f 16; exec "$@"',
        "bash",
        sys.executable,
        "-c",
        WRITE_ROLLOUTS,
        str(stage),
    ]
    failed = subprocess.run(limited, env=environment(tmp_path), capture_output=True, text=True, timeout=120)
    assert "File too large" in failed.stderr
    assert not (stage / "rollouts.parquet").exists()
    assert not list(stage.glob(".rollouts*"))
    envwright(tmp_path, "run", "micro", PREFECT_API_URL=server)
    assert (stage / "rollouts.parquet").exists()
    assert (stage / "manifest.json").exists()
