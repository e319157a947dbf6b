"""The whole loop on the micro preset, against a real Prefect server and a real MLflow store."""

import json

import pytest
from support.envwright_command import envwright
from support.finished_run import NAME, FinishedRun

from envgen.dataset import read_dataset

pytestmark = pytest.mark.timeout(900)
STAGE = [
    "config.json",
    "train.parquet",
    "checkpoint/model.safetensors",
    "train_log.parquet",
    "rollouts.parquet",
]
STAGE += ["breakdown.json", "proposal.json", "engineer_state.json", "manifest.json"]


def test_the_loop_trains_evaluates_designs_and_reports(finished: FinishedRun):
    assert "start " in finished.printed
    assert "stage 1" in finished.printed
    run = finished.directory
    for stage in ("stage-00", "stage-01"):
        assert [name for name in STAGE if not (run / stage / name).exists()] == []
        assert not (run / stage / "work").exists()
    proposal = json.loads((run / "stage-00" / "proposal.json").read_text())
    assert proposal["engineer"] == "checkpoint"
    assert proposal["attempts"], "the checkpoint was asked"
    assert json.loads((run / "stage-01" / "config.json").read_text()) == proposal["config"]
    results = json.loads((run / "results.json").read_text())
    assert [s["stage"] for s in results["stages"]] == [0, 1]
    assert all(s["behaviour"]["edit"]["data_ratio"] >= 0 for s in results["stages"])
    assert "</html>" in (run / "report.html").read_text()


def test_training_data_and_validation_set_share_no_board(finished: FinishedRun):
    held_out = {i.problem.id for i in read_dataset(finished.directory / "validation.parquet")}
    for stage in ("stage-00", "stage-01"):
        assert not held_out & {
            i.problem.id for i in read_dataset(finished.directory / stage / "train.parquet")
        }


def test_a_configured_server_sees_the_curriculum_its_stages_and_the_log(finished: FinishedRun):
    states = {run["name"]: run["state"]["type"] for run in finished.flow_runs}
    assert states == dict.fromkeys([NAME, "stage 0 · checkpoint-V6", "stage 1 · checkpoint-V6"], "COMPLETED")
    below = [run["tags"] for run in finished.flow_runs if run["parent_task_run_id"]]
    assert len(below) == 2
    assert all("envwright" in tags for tags in below), "the janitor looks after them"
    assert any("checkpoint proposes" in message for message in finished.messages), finished.messages


def test_lineage_leads_from_the_last_checkpoint_to_the_base_policy(finished: FinishedRun):
    shown = envwright(finished.folder, "lineage", finished.directory / "stage-01" / "checkpoint").stdout
    order = [
        shown.index(name)
        for name in (f"stage 1 of {NAME}", f"stage 0 of {NAME}", f"the base policy of {NAME}")
    ]
    assert order == sorted(order)
    assert "engineer checkpoint, context V6, prompt envwright-compact-V6 version 1, trace tr-" in shown


def test_a_finished_run_is_not_run_again_and_another_preset_is_refused(finished: FinishedRun, tmp_path):
    run = finished.copy_to(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in run.glob("stage-*/*") if path.is_file()}
    envwright(tmp_path, "run", "micro")
    assert {path: path.stat().st_mtime_ns for path in run.glob("stage-*/*") if path.is_file()} == before
    other = envwright(tmp_path, "run", "micro", "--name", NAME, "--set", "instances=24", code=2)
    assert "instances: 16 there, 24 here" in other.stderr
