"""A comparison on the micro preset, with a real Prefect server and a real MLflow store: killed in the middle,
resumed, one curriculum failing."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient

from infra.comparison.results import ComparisonResults, read_comparison_results
from infra.runs.files import RESULTS
from infra.runs.run import Run

NAME = "compare-micro"
COMPARE = [
    sys.executable,
    "-m",
    "flows.cli",
    "compare",
    "micro",
    "--engineers",
    "fixed,random,levels",
    "--seeds",
    "3",
]
SMALL = ["--set", "epochs=1", "--set", "validation.instances=2", "--set", "test.instances=2"]


def environment(folder: Path) -> dict[str, str]:
    # MLflow puts the store that another test opened into the environment.
    ours = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    return {
        **ours,
        "ENVWRIGHT_RUNS": str(folder / "runs"),
        "PREFECT_HOME": str(folder / "prefect"),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
    }


def wait_for(path: Path, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + 240
    while not path.exists():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"{path} did not appear: {log.read_text()}"
        time.sleep(0.05)


def working_for(folder: Path) -> list[str]:
    """Processes that were told to work in a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{folder}/" in command:
            found.append(command)
    return found


def stamps(run: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in run.glob("stage-*/*") if path.is_file()}


def group_lives(number: int) -> bool:
    """Whether a process of a group lives, as Prefect's temporary server of a comparison."""
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.timeout(900)
def test_a_comparison_is_killed_resumed_and_finished_beside_a_curriculum_that_fails(tmp_path: Path):
    directory = tmp_path / "runs" / NAME
    with open(tmp_path / "out.txt", "w") as out:
        process = subprocess.Popen(
            [*COMPARE, *SMALL], env=environment(tmp_path), stdout=out, stderr=out, start_new_session=True
        )
        wait_for(directory / "comparison.json", process, tmp_path / "out.txt")
        (directory / "levels-s3").mkdir()
        (directory / "levels-s3" / "curriculum.json").write_text("{}")
        wait_for(directory / "random-s3" / "stage-01" / "work", process, tmp_path / "out.txt")
        process.send_signal(signal.SIGKILL)
        process.wait()
    deadline = time.monotonic() + 20
    while working_for(directory) or group_lives(process.pid):
        assert time.monotonic() < deadline, f"outlived the comparison: {working_for(directory)}"
        time.sleep(0.1)
    assert seeds(read_comparison_results(directory)) == {
        "fixed": (3,),
        "random": (),
        "levels": (),
    }, "what was known is shown"
    assert "</html>" in (directory / "comparison.html").read_text()
    before = stamps(directory / "fixed-s3") | stamps(directory / "shared-s3")

    done = subprocess.run(
        [*COMPARE, *SMALL], env=environment(tmp_path), capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 of 3 curricula failed: levels-s3" in done.stderr
    assert "Failed: levels-s3" in done.stdout, "the table is printed all the same"
    assert stamps(directory / "fixed-s3") | stamps(directory / "shared-s3") == before
    results = read_comparison_results(directory)
    assert seeds(results) == {"fixed": (3,), "random": (3,), "levels": ()}
    assert "damaged" in results.troubled[0].reason
    assert results.pairs[0].seeds == (3,)

    again = subprocess.run(
        [*COMPARE, *SMALL, "--json"], env=environment(tmp_path), capture_output=True, text=True, timeout=400
    )
    assert ComparisonResults.model_validate_json(again.stdout) == read_comparison_results(directory)

    shares_stage_0(directory)
    uses_tokens(directory, results)
    shows_in_prefect(tmp_path / "prefect" / "prefect.db")
    shows_in_mlflow(tmp_path / "runs")


def seeds(results: ComparisonResults) -> dict[str, tuple[int, ...]]:
    return {arm.label: arm.seeds for arm in results.arms}


def shares_stage_0(directory: Path) -> None:
    for step in ("generate", "train", "evaluate", "summarize"):
        records = [
            json.loads((directory / run / "stage-00" / ".steps" / f"{step}.json").read_text())
            for run in ("shared-s3", "fixed-s3", "random-s3")
        ]
        assert records[0] == records[1] == records[2], "one training for all"
    assert not (directory / "random-s3" / "stage-00" / "logs" / "training.log").exists()


def uses_tokens(directory: Path, results: ComparisonResults) -> None:
    stages = Run(directory=directory / "random-s3").read(RESULTS).stages
    spent = results.arms[1].spent
    assert spent
    assert spent.training_tokens == sum(stage.training.completion_tokens for stage in stages) > 0
    assert spent.training_seconds == pytest.approx(sum(stage.seconds["train"] for stage in stages))


def shows_in_prefect(database: Path) -> None:
    query = """select child.name, child.state_type from flow_run child join task_run on task_run.id = child.parent_task_run_id
    join flow_run parent on parent.id = task_run.flow_run_id where parent.name = ?"""
    with sqlite3.connect(database) as connection:
        found = connection.execute(query, [NAME]).fetchall()
    for expected in ("shared-s3", "fixed-s3", "random-s3"):
        assert (f"{NAME}/{expected}", "COMPLETED") in found
    assert (f"{NAME}/levels-s3", "FAILED") in found


def shows_in_mlflow(runs: Path) -> None:
    client = MlflowClient(f"sqlite:///{runs.resolve()}/mlflow.db")
    experiment = client.get_experiment_by_name(f"envwright/{NAME}")
    assert experiment is not None
    found = client.search_runs([experiment.experiment_id], max_results=100)
    [parent] = [run for run in found if run.data.tags.get("level") == "comparison"]
    nested = sorted(
        str(run.info.run_name)
        for run in found
        if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id
    )
    assert nested == ["fixed-s3", "random-s3", "shared-s3"]
    [shared] = [run for run in found if run.info.run_name.endswith("shared-s3")]
    assert shared.data.tags["level"] == "shared stage", "no curriculum that an engineer is compared by"
    assert "Against fixed, in valid rate on the test set" in parent.data.tags["mlflow.note.content"]
    assert {"comparison.yaml", "comparison_results.json", "comparison.html"} <= {
        file.path for file in client.list_artifacts(parent.info.run_id)
    }
