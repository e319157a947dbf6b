"""A comparison on the micro preset, with a real Prefect server and a real MLflow store: killed in the middle,
resumed, one curriculum failing."""

import json
import signal
import sqlite3
from pathlib import Path

import pytest
from mlflow import MlflowClient
from support.envwright_command import envwright, started, wait_for
from support.prefect_servers import processes_with, wait_until

from infra.comparison.results import ComparisonResults, read_comparison_results

NAME = "compare-micro"
SMALL = [
    word for field in ("epochs=1", "validation.instances=2", "test.instances=2") for word in ("--set", field)
]
COMPARE = ["compare", "micro", "--engineers", "fixed,random,levels", "--seeds", "3", *SMALL]


def stamps(directory: Path) -> dict[Path, int]:
    files = (path for run in ("fixed-s3", "shared-s3") for path in (directory / run).glob("stage-*/*"))
    return {path: path.stat().st_mtime_ns for path in files if path.is_file()}


def seeds(results: ComparisonResults) -> dict[str, tuple[int, ...]]:
    return {arm.label: arm.seeds for arm in results.arms}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_comparison_is_killed_resumed_and_finished_beside_a_curriculum_that_fails(tmp_path: Path):
    directory = tmp_path / "runs" / NAME
    process = started(tmp_path, *COMPARE)
    wait_for((directory / "comparison.json").exists, process, tmp_path)
    (directory / "levels-s3").mkdir()
    (directory / "levels-s3" / "curriculum.json").write_text("{}")
    wait_for((directory / "random-s3" / "stage-01" / "work").exists, process, tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # With its curricula ends Prefect's temporary server.
    wait_until(lambda: not processes_with(ENVWRIGHT_RUNS=str(tmp_path / "runs")), 20)
    known = {"fixed": (3,), "random": (), "levels": ()}
    assert seeds(read_comparison_results(directory)) == known, "what was known is shown"
    assert "</html>" in (directory / "comparison.html").read_text()
    before = stamps(directory)

    done = envwright(tmp_path, *COMPARE, code=1)
    assert "1 of 3 curricula failed: levels-s3" in done.stderr
    assert "Failed: levels-s3" in done.stdout, "the table is printed all the same"
    assert stamps(directory) == before
    results = read_comparison_results(directory)
    assert seeds(results) == {"fixed": (3,), "random": (3,), "levels": ()}
    assert "damaged" in results.troubled[0].reason
    assert results.pairs[0].seeds == (3,)
    again = envwright(tmp_path, *COMPARE, "--json", code=1).stdout
    assert ComparisonResults.model_validate_json(again) == read_comparison_results(directory)

    shares_stage_0(directory)
    shows_in_prefect(tmp_path / "prefect" / "prefect.db")
    shows_in_mlflow(tmp_path / "runs")


def shares_stage_0(directory: Path) -> None:
    for step in ("generate", "train", "evaluate", "summarize"):
        runs = (directory / run / "stage-00" for run in ("shared-s3", "fixed-s3", "random-s3"))
        first, *others = (json.loads((stage / ".steps" / f"{step}.json").read_text()) for stage in runs)
        assert others == [first] * 2, "one training for all"
    assert not (directory / "random-s3" / "stage-00" / "logs" / "training.log").exists()


def shows_in_prefect(database: Path) -> None:
    query = """select child.name, child.state_type from flow_run child join task_run on task_run.id = child.parent_task_run_id
    join flow_run parent on parent.id = task_run.flow_run_id where parent.name = ?"""
    with sqlite3.connect(database) as connection:
        child_runs = connection.execute(query, [NAME]).fetchall()
    completed = {(f"{NAME}/{run}-s3", "COMPLETED") for run in ("shared", "fixed", "random")}
    assert {*completed, (f"{NAME}/levels-s3", "FAILED")} <= set(child_runs)


def shows_in_mlflow(runs: Path) -> None:
    client = MlflowClient(f"sqlite:///{runs.resolve()}/mlflow.db")
    experiment = client.get_experiment_by_name(f"envwright/{NAME}")
    logged = client.search_runs([experiment.experiment_id], max_results=100)
    [parent] = [run for run in logged if run.data.tags.get("level") == "comparison"]
    nested = [run for run in logged if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert sorted(str(run.info.run_name) for run in nested) == ["fixed-s3", "random-s3", "shared-s3"]
    [shared] = [run for run in logged if run.info.run_name.endswith("shared-s3")]
    assert shared.data.tags["level"] == "shared stage", "no curriculum that an engineer is compared by"
    assert "Against fixed, in valid rate on the test set" in parent.data.tags["mlflow.note.content"]
    files = {file.path for file in client.list_artifacts(parent.info.run_id)}
    assert {"comparison.yaml", "comparison_results.json", "comparison.html"} <= files
