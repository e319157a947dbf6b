"""`envwright serve` as a whole: what it starts, what it leaves, and what it says when something dies."""

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.envwright_serve import Served, serving, wait_until
from support.prefect_servers import ask, states

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SHORT = ("-p", "name=short", "-p", 'options={"stages": 1}')
RECORD = """
import sys; from pathlib import Path; from infra.lineage import Recorder
recorder = Recorder(sys.argv[1], Path("runs/mlartifacts"), "tiny"); run = recorder.run("key", "name"); note = Path("note.txt"); note.write_text("x")
recorder.artifact(run, note)
print(run, [a.path for a in recorder.client.list_artifacts(run)], list(Path("runs/mlartifacts").rglob("note.txt")))
"""


def recorded(served: Served, tracking: str) -> str:
    """What is known of a run with an artifact that is recorded at a tracking server or database."""
    command = [sys.executable, "-c", RECORD, tracking]
    done = subprocess.run(
        command, cwd=served.folder, env=served.environment, capture_output=True, text=True, timeout=120
    )
    assert "note.txt" in done.stdout.rpartition("[")[2], done.stdout + done.stderr
    return done.stdout


def test_a_deployment_runs_from_the_same_folder_and_ctrl_c_leaves_nothing(tmp_path: Path):
    with serving(tmp_path) as served:
        assert recorded(served, f"http://127.0.0.1:{served.mlflow}") == recorded(
            served, f"sqlite:///{tmp_path}/runs/mlflow.db"
        )
        done = served.run("deployment", "run", "curriculum/micro", "--watch", *SHORT)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Completed" in done.stdout
        # A run in its first seconds and one that waits for its place are there when the end comes.
        for _ in range(2):
            assert served.run("deployment", "run", "curriculum/tiny", "-p", "preset=micro").returncode == 0
        wait_until(lambda: "RUNNING" in states(served.api).values(), 120)
        ended = datetime.now(UTC).isoformat()
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(10) == 130, served.out.read_text()
        wait_until(lambda: not served.left(), 2)
        wait_until(lambda: not (tmp_path / "prefect.toml").exists(), 2)
        assert (tmp_path / "runs" / ".prefect" / "prefect.db").exists()
    with serving(tmp_path) as served:
        after = [
            run["state"]["type"] for run in ask(f"{served.api}/flow_runs/filter") if run["created"] < ended
        ]
        assert {"CRASHED", "COMPLETED"} <= set(after), "history is kept"
        assert "PENDING" not in after
        assert after.count("RUNNING") <= 1, "the one that waited has the place of the one that was cut off"


def test_a_kill_leaves_nothing_either(tmp_path: Path):
    with serving(tmp_path) as served:
        assert served.run("deployment", "run", "curriculum/tiny", "-p", "preset=micro").returncode == 0
        wait_until(lambda: any("prefect.engine" in line for line in served.left()), 60)
        assert len(served.left()) >= 6
        served.process.kill()
        wait_until(lambda: not served.left())
        wait_until(lambda: not (tmp_path / "prefect.toml").exists())


@pytest.mark.long
def test_a_worker_is_started_again_and_the_end_of_a_server_is_the_end_of_all(tmp_path: Path):
    with serving(tmp_path) as served:
        second = subprocess.run(
            [sys.executable, "-m", "flows.cli", "serve", "--prefect-port", str(served.prefect)],
            cwd=tmp_path,
            env=served.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert second.returncode == 2
        assert "another envwright serve" in second.stderr
        served.the("worker start", "--pool gpu").kill()
        served.wait_for("worker gpu ended with exit code -9; starting it again", 30)
        wait_until(lambda: any("--pool gpu" in line for line in served.left()))
        served.the("mlflow server").terminate()
        assert served.process.wait(120) == 1
        assert "MLflow server ended" in served.out.read_text()
        assert "mlflow.log" in served.out.read_text()
        assert served.left() == []
        assert not (tmp_path / "prefect.toml").exists()
