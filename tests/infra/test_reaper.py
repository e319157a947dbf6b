"""The reaper on a real Prefect server: which flow runs it marks as crashed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from prefect.client.orchestration import SyncPrefectClient
from support.prefect_servers import ask, prefect_server, prefect_tables, told

from infra.serving import reaper

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def server(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prefect_server(tmp_path_factory.mktemp("server"), prefect_tables(shared)) as url:
        yield url


@pytest.fixture
def deployment(server: str) -> str:
    flow = ask(f"{server}/flows/", {"name": "curriculum"})["id"]
    return ask(f"{server}/deployments/", {"name": "micro", "flow_id": flow, "tags": [reaper.TAG]})["id"]


def started(server: str, deployment: str, state: str) -> str:
    run = ask(f"{server}/deployments/{deployment}/create_flow_run", {})["id"]
    for each in dict.fromkeys(("RUNNING", state)):
        told(server, run, each)
    return run


def state(server: str, run: str) -> str:
    return ask(f"{server}/flow_runs/{run}", method="GET")["state"]["type"]


def below(server: str, parent: str) -> str:
    """A running subflow of a run."""
    task = {"flow_run_id": parent, "task_key": "stage", "dynamic_key": parent, "state": {"type": "RUNNING"}}
    placeholder = ask(f"{server}/task_runs/", task)["id"]
    flow = ask(f"{server}/flows/", {"name": "stage"})["id"]
    child = {"flow_id": flow, "parent_task_run_id": placeholder, "tags": [reaper.TAG]}
    return ask(f"{server}/flow_runs/", {**child, "state": {"type": "RUNNING"}})["id"]


def test_only_runs_whose_process_is_gone_are_marked(server: str, deployment: str, tmp_path, monkeypatch):
    begun = ("RUNNING", "RUNNING", "PAUSED", "FAILED")
    dead, alive, suspended, ended = (started(server, deployment, state) for state in begun)
    orphan, child = below(server, ended), below(server, alive)
    environment = {**os.environ, "PREFECT__FLOW_RUN_ID": alive}
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], env=environment)
    try:
        with SyncPrefectClient(server) as client:
            states = {dead: "RUNNING", alive: "RUNNING", suspended: "PAUSED", child: "RUNNING"}
            assert len(list(reaper.reap(client))) == 1, "the orphan; no silence of two minutes"
            assert state(server, orphan) == "CRASHED"
            assert {run: state(server, run) for run in states} == states
            monkeypatch.setattr(reaper, "_SILENCE", dict.fromkeys(("RUNNING", "PENDING"), timedelta(0)))
            assert len(list(reaper.reap(client))) == 1
            assert {run: state(server, run) for run in states} == states | {dead: "CRASHED"}
    finally:
        process.kill()
        process.wait()
