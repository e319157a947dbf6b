"""The whole loop on the micro preset, with a real Prefect server and a real MLflow store, cut off and resumed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

RUN = [sys.executable, "-m", "flows.cli", "run", "micro"]
NAME = "micro-checkpoint-V6-s0"


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "ENVWRIGHT_RUNS": str(folder / "runs"),
        "PREFECT_HOME": str(folder / "prefect"),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "160",
    }


def envwright(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "flows.cli", *arguments], env=environment(folder), capture_output=True, text=True, timeout=280)


def manifests(folder: Path) -> list[dict]:
    return [json.loads((folder / "runs" / NAME / f"stage-{n:02d}" / "manifest.json").read_text()) for n in range(2)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess]:
    folder = tmp_path_factory.mktemp("loop")
    return folder, envwright(folder, "run", "micro")


@pytest.mark.timeout(600)
def test_the_loop_trains_evaluates_designs_and_reports(finished):
    folder, done = finished
    assert done.returncode == 0, done.stdout + done.stderr
    assert "start " in done.stdout
    assert "stage 1" in done.stdout
    run = folder / "runs" / NAME
    for stage in ("stage-00", "stage-01"):
        for name in (
            "config.json",
            "train.parquet",
            "checkpoint/model.safetensors",
            "train_log.parquet",
            "rollouts.parquet",
            "breakdown.json",
            "proposal.json",
            "designer_state.json",
            "manifest.json",
        ):
            assert (run / stage / name).exists(), f"{stage}/{name}"
        assert not (run / stage / "work").exists()
    proposal = json.loads((run / "stage-00" / "proposal.json").read_text())
    assert proposal["designer"] == "checkpoint"
    assert proposal["attempts"], "the checkpoint was asked"
    assert json.loads((run / "stage-01" / "config.json").read_text()) == proposal["config"]
    results = json.loads((run / "results.json").read_text())
    assert [s["stage"] for s in results["stages"]] == [0, 1]
    assert all(s["behaviour"]["edit"]["data_ratio"] >= 0 for s in results["stages"])
    assert "</html>" in (run / "report.html").read_text()


@pytest.mark.timeout(600)
def test_training_data_and_validation_set_share_no_board(finished):
    from envgen.dataset import read_dataset

    run = finished[0] / "runs" / NAME
    held_out = {i.problem.id for i in read_dataset(run / "validation.parquet")}
    for stage in ("stage-00", "stage-01"):
        assert not held_out & {i.problem.id for i in read_dataset(run / stage / "train.parquet")}


@pytest.mark.timeout(600)
def test_lineage_leads_from_the_last_checkpoint_to_the_start_policy(finished):
    folder, _ = finished
    shown = envwright(folder, "lineage", str(folder / "runs" / NAME / "stage-01" / "checkpoint"))
    assert shown.returncode == 0, shown.stderr
    order = [shown.stdout.index(name) for name in (f"stage 1 of {NAME}", f"stage 0 of {NAME}", f"the start policy of {NAME}")]
    assert order == sorted(order)
    assert "designer checkpoint, context V6, prompt envwright-compact-V6 version 1, trace tr-" in shown.stdout


@pytest.mark.timeout(600)
def test_a_finished_run_is_not_run_again_and_another_preset_is_refused(finished):
    folder, _ = finished
    before = {p: p.stat().st_mtime_ns for p in (folder / "runs" / NAME).glob("stage-*/*") if p.is_file()}
    again = envwright(folder, "run", "micro")
    assert again.returncode == 0, again.stderr
    assert before == {p: p.stat().st_mtime_ns for p in (folder / "runs" / NAME).glob("stage-*/*") if p.is_file()}
    other = envwright(folder, "run", "micro", "--name", NAME, "--set", "instances=24")
    assert other.returncode == 2
    assert "instances: 16 there, 24 here" in other.stderr


@pytest.mark.timeout(900)
def test_a_run_killed_in_the_middle_of_training_ends_with_the_same_data(finished, tmp_path):
    whole = manifests(finished[0])
    with open(tmp_path / "out.txt", "w") as out:
        process = subprocess.Popen([*RUN, "--set", "trl.save_steps=1"], env=environment(tmp_path), stdout=out, stderr=out, start_new_session=True)
        work = tmp_path / "runs" / NAME / "stage-00" / "work"
        deadline = time.monotonic() + 240
        while not list(work.glob("*/checkpoint-*/trainer_state.json")):
            assert process.poll() is None, (tmp_path / "out.txt").read_text()
            assert time.monotonic() < deadline, "no trainer checkpoint appeared"
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not (tmp_path / "runs" / NAME / "stage-00" / "manifest.json").exists()
    resumed = envwright(tmp_path, "run", "micro", "--set", "trl.save_steps=1")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    log = (tmp_path / "runs" / NAME / "stage-00" / "logs" / "training.log").read_text()
    assert "resuming from checkpoint-" in log
    after = manifests(tmp_path)
    assert [m["files"]["config.json"] for m in after][:1] == [m["files"]["config.json"] for m in whole][:1]
    assert after[0]["files"]["train.parquet"] == whole[0]["files"]["train.parquet"]
    assert after[0]["keys"]["generate"] == whole[0]["keys"]["generate"]
    assert len(list((tmp_path / "runs" / NAME).glob("stage-*"))) == 2


@pytest.mark.timeout(600)
def test_a_full_disk_leaves_the_stage_incomplete_and_resumable(finished, tmp_path):
    shutil.copytree(finished[0] / "runs" / NAME, tmp_path / "runs" / NAME)
    stage = tmp_path / "runs" / NAME / "stage-01"
    for name in (".steps/evaluate.json", "manifest.json", "rollouts.parquet"):
        (stage / name).unlink()
    # A limit on the size of files stands for a disk that fills up while rollouts are written.
    limited = ["bash", "-c", 'ulimit -f 16; exec "$@"', "bash", sys.executable, "-c", _WRITE_ROLLOUTS, str(stage)]
    failed = subprocess.run(limited, env=environment(tmp_path), capture_output=True, text=True, timeout=120)
    assert "File too large" in failed.stderr
    assert not (stage / "rollouts.parquet").exists()
    assert not list(stage.glob(".rollouts*"))
    resumed = envwright(tmp_path, "run", "micro")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert (stage / "rollouts.parquet").exists()
    assert (stage / "manifest.json").exists()


_WRITE_ROLLOUTS = """
import sys
from pathlib import Path
from envgen.prompts import PromptStyle
from policy.rollouts import read_rollouts, write_rollouts
stage = Path(sys.argv[1])
many = read_rollouts(stage.parent / "stage-00" / "rollouts.parquet") * 40
write_rollouts(stage / "rollouts.parquet", many, PromptStyle.COMPACT)
"""
