"""The same command against a running Prefect server."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def server(tmp_path):
    port = free_port()
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    with open(tmp_path / "server.log", "w") as log:
        command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}/api"
    deadline = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(url + "/health", timeout=5).close()
            break
        except OSError:
            assert process.poll() is None, (tmp_path / "server.log").read_text()
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.5)
    yield url
    process.terminate()
    process.wait(30)


def flow_runs(url: str) -> list[dict]:
    request = urllib.request.Request(url + "/flow_runs/filter", data=b"{}", headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


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
    runs = {run["name"]: run["state"]["type"] for run in flow_runs(server)}
    assert runs == dict.fromkeys(["micro-checkpoint-V6-s0", "stage 0 · V6 · checkpoint", "stage 1 · V6 · checkpoint"], "COMPLETED")
    request = urllib.request.Request(server + "/logs/filter", data=b"{}", headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        messages = [entry["message"] for entry in json.load(answer)]
    assert any("checkpoint proposes" in message for message in messages), messages
