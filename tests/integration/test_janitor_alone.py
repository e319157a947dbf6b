"""The janitor while there is no server to ask."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.prefect_runs import eventually
from support.prefect_servers import free_port, prefect_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_the_command_waits_for_a_server(tmp_path: Path):
    port, log = free_port(), tmp_path / "janitor.log"
    with open(log, "w") as out:
        command = [sys.executable, "-m", "flows.cli", "janitor", "--every", "1"]
        environment = {**os.environ, "PREFECT_API_URL": f"http://127.0.0.1:{port}/api"}
        janitor = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
    try:
        eventually(lambda: "the Prefect server does not answer" in log.read_text())
        with prefect_server(tmp_path, port):
            eventually(lambda: "the Prefect server answers again" in log.read_text())
        janitor.terminate()
        assert janitor.wait(30) == 143
    finally:
        janitor.kill()
    assert "Traceback" not in log.read_text()
