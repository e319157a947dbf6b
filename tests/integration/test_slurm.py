"""The batch script of a Slurm worker against a real Prefect server; of Slurm there is only a stand-in for
`scontrol`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.prefect_servers import free_port, served, states

SCRIPT = Path(__file__).parents[2] / "infra" / "deploy" / "slurm" / "worker.sbatch"
FLOW = """
import time
from pathlib import Path
from prefect import flow

@flow
def training(folder: str):
    starts = Path(folder) / "starts"
    with open(starts, "a") as file:
        file.write("x")
    while starts.read_text() == "x":
        time.sleep(0.2)
"""


def prefect(environment: dict[str, str], folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "prefect", *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_preempted_job_goes_back_to_the_queue_and_its_flow_run_is_taken_up_again(tmp_path: Path):
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    server = [
        sys.executable,
        "-m",
        "prefect",
        "server",
        "start",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--analytics-off",
    ]
    bin_folder = tmp_path / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    for name, line in {
        "scontrol": f'echo "$@" >>{tmp_path}/requeued',
        "prefect": f'exec {sys.executable} -m prefect "$@"',
    }.items():
        (bin_folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (bin_folder / name).chmod(0o755)
    (tmp_path / "training.py").write_text(FLOW)
    environment = {
        **os.environ,
        "PREFECT_HOME": str(tmp_path / "client"),
        "PREFECT_API_URL": url,
        "SLURM_JOB_ID": "17",
        "SLURM_SUBMIT_DIR": str(tmp_path),
    }
    with served(server, f"{url}/health", tmp_path / "server.log", PREFECT_HOME=str(tmp_path / "server")):
        prefect(environment, tmp_path, "work-pool", "create", "gpu", "--type", "process")
        prefect(
            environment, tmp_path, "--no-prompt", "deploy", "training.py:training", "-n", "one", "-p", "gpu"
        )
        prefect(environment, tmp_path, "deployment", "run", "training/one", "-p", f"folder={tmp_path}")
        with open(tmp_path / "job.log", "w") as log:
            job = subprocess.Popen(["bash", str(SCRIPT)], env=environment, stdout=log, stderr=log)
        deadline = time.monotonic() + 120
        while not (tmp_path / "starts").exists():
            assert job.poll() is None, (tmp_path / "job.log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "job.log").read_text()
            time.sleep(0.1)
        job.send_signal(signal.SIGUSR1)
        assert job.wait(120) == 0, (tmp_path / "job.log").read_text()
        assert (tmp_path / "requeued").read_text() == "requeue 17\n"
        assert list(states(url).values()) == ["SCHEDULED"]
        again = subprocess.run(
            ["bash", str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=200
        )
        assert again.returncode == 0, again.stdout + again.stderr
        assert list(states(url).values()) == ["COMPLETED"]
        assert (tmp_path / "starts").read_text() == "xx"
