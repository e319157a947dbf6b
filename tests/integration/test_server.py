"""The same command against a running Prefect server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.prefect_servers import ask, flow_runs, prefect_server, states


@pytest.fixture
def server(tmp_path):
    with prefect_server(tmp_path) as url:
        yield url


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_configured_server_sees_the_curriculum_its_stages_and_the_log(server, tmp_path: Path):
    environment = {
        **os.environ,
        "ENVWRIGHT_RUNS": str(tmp_path / "runs"),
        "PREFECT_HOME": str(tmp_path / "client"),
        "PREFECT_API_URL": server,
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run([sys.executable, "-m", "flows.cli", "run", "micro"], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert states(server) == dict.fromkeys(["micro-checkpoint-V6-s0", "stage 0 · V6 · checkpoint", "stage 1 · V6 · checkpoint"], "COMPLETED")
    below = {run["name"]: run["tags"] for run in flow_runs(server) if run["parent_task_run_id"]}
    assert len(below) == 2
    assert all("envwright" in tags for tags in below.values()), "the janitor looks after them"
    messages = [entry["message"] for entry in ask(f"{server}/logs/filter")]
    assert any("checkpoint proposes" in message for message in messages), messages
