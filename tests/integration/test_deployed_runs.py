"""Deployments, the janitor and notifications against a real Prefect server."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient
from support.prefect_runs import below, eventually, started, state, task_state, told
from support.prefect_servers import ask, prefect_server

from infra.serving import reaping
from infra.serving.crashed_runs import crash_unstarted
from infra.serving.names import worker_name
from policy.child import start_child, stop_child

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
DEPLOYMENTS = """
pull: [{prefect.deployments.steps.set_working_directory: {directory: "{{ $PWD }}"}}]
deployments:
  - {name: here, tags: [envwright], entrypoint: "tests/integration/served_flows.py:sleeper",
     work_pool: {name: local, work_queue_name: default, job_variables: {env: &env
      {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: "30", ENVWRIGHT_RUNS: "{{ $ENVWRIGHT_RUNS }}", MLFLOW_TRACKING_URI: "{{ $MLFLOW_TRACKING_URI }}"}}}}
  - {name: nowhere, tags: [envwright, other], entrypoint: "tests/integration/served_flows.py:sleeper", work_pool: {name: gpu, job_variables: {env: *env}}}
  - {name: theirs, entrypoint: "tests/integration/served_flows.py:sleeper", work_pool: {name: gpu}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    with prefect_server(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture(scope="module")
def deployments(server: str, tmp_path_factory) -> dict[str, str]:
    """Deployment -> id."""
    file = tmp_path_factory.mktemp("project") / "deployments.yaml"
    file.write_text(DEPLOYMENTS)
    flow = ask(f"{server}/flows/", {"name": "janitor"})["id"]
    ask(f"{server}/deployments/", {"name": "every-two-minutes", "flow_id": flow})
    first = deployed(server, file)
    assert "every-two-minutes" not in first, "the janitor is a command now"
    assert deployed(server, file, "--limit", "2") == first, "a second call makes nothing new"
    return first


def envwright(server: str, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "flows.cli", *arguments]
    return subprocess.run(
        command, env={**os.environ, "PREFECT_API_URL": server}, capture_output=True, text=True, timeout=120
    )


def deployed(server: str, file: Path, *more: str) -> dict[str, str]:
    done = envwright(server, "deploy", "--file", str(file), *more)
    assert done.returncode == 0, done.stdout + done.stderr
    return {deployment["name"]: deployment["id"] for deployment in ask(f"{server}/deployments/filter")}


def pools(server: str) -> dict[str, tuple]:
    return {
        pool["name"]: (pool["type"], pool["concurrency_limit"]) for pool in ask(f"{server}/work_pools/filter")
    }


def reap(server: str, **options: float) -> list[str]:
    """Call the janitor's work in a process of its own."""
    code = (
        "import json, sys; from datetime import datetime, timedelta, UTC; from prefect.client.orchestration"
        " import get_client; from infra.serving import reaping; o = json.loads(sys.argv[1]); now ="
        " datetime.now(UTC) + timedelta(seconds=o.pop('later', 0)); reaping._PAGE = o.pop('page',"
        " reaping._PAGE)\nwith get_client(sync_client=True) as client: print(json.dumps(reaping.reap(client,"
        " now=now, **o)))"
    )
    defaults = {"max_silence": 120, "max_start": 900, "resume": 0}
    command = [sys.executable, "-c", code, json.dumps(defaults | options)]
    done = subprocess.run(
        command, env={**os.environ, "PREFECT_API_URL": server}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_deploy_gives_pools_and_placeholders_what_they_should_have(server, deployments):
    assert pools(server) == {"local": ("process", None), "gpu": ("process", 1)}
    queues = {
        queue["name"]: queue["concurrency_limit"] for queue in ask(f"{server}/work_pools/local/queues/filter")
    }
    assert queues == {"default": 2, "comparisons": None}, "a comparison takes no place of its curricula"
    [here] = [
        deployment for deployment in ask(f"{server}/deployments/filter") if deployment["name"] == "here"
    ]
    assert here["job_variables"]["env"]["ENVWRIGHT_RUNS"] == os.environ["ENVWRIGHT_RUNS"]
    assert here["job_variables"]["env"]["MLFLOW_TRACKING_URI"].startswith("sqlite:///")
    assert Path(
        here["pull_steps"][0]["prefect.deployments.steps.set_working_directory"]["directory"]
    ).is_absolute()


def test_deploy_without_a_server_says_how_to_get_one(tmp_path):
    done = envwright("http://127.0.0.1:9/api", "deploy")
    assert (done.returncode, done.stdout) == (2, "")
    assert "http://127.0.0.1:9/api" in done.stderr
    assert "envwright serve" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_janitor_tells_the_dead_from_the_living_and_the_suspended(server, deployments):
    worker = start_child(
        "prefect",
        ["worker", "start", "--pool", "local"],
        {"PREFECT_API_URL": server, "PREFECT_WORKER_QUERY_SECONDS": "2"},
    )
    try:
        live = ask(
            f"{server}/deployments/{deployments['here']}/create_flow_run", {"parameters": {"seconds": 300}}
        )["id"]
        eventually(lambda: state(server, live) == "Running")
        dead = started(server, deployments["nowhere"], "RUNNING")
        stuck = started(server, deployments["nowhere"], "PENDING")
        suspended = started(server, deployments["nowhere"], "PENDING")
        told(server, suspended, "PAUSED", "Suspended")
        # A living run gives a sign of life every 30 s, later on a busy machine.
        time.sleep(75)
        [line] = reap(server, max_silence=70)
        assert "no sign of life" in line
        assert [state(server, run) for run in (live, dead, stuck, suspended)] == [
            "Running",
            "Crashed",
            "Pending",
            "Suspended",
        ]
        reap(server, max_silence=3000, max_start=40)
        assert [state(server, run) for run in (live, stuck, suspended)] == ["Running", "Crashed", "Suspended"]
        assert reap(server) == []
    finally:
        stop_child(worker)
        for run in ask(f"{server}/flow_runs/filter"):
            told(server, run["id"], "CANCELLED")


def test_the_command_marks_what_is_dead(server, deployments):
    young = started(server, deployments["nowhere"], "PENDING")
    root = started(server, deployments["nowhere"], "RUNNING")
    task, child, _ = below(server, root, "envwright")
    told(server, root, "FAILED")
    done = envwright(server, "janitor", "--once")
    assert (done.returncode, state(server, young)) == (0, "Pending"), "it may still start"
    assert (state(server, child), task_state(server, task)) == ("Crashed", "CRASHED"), done.stderr
    told(server, young, "CANCELLED")
    done = envwright("http://127.0.0.1:9/api", "janitor", "--once")
    assert done.returncode == 2
    assert "http://127.0.0.1:9/api" in done.stderr


def test_a_run_that_is_deleted_meanwhile_does_not_stop_the_janitor(server, deployments):
    deleted, dead, ended = (started(server, deployments["nowhere"], "RUNNING") for _ in range(3))
    task, *_ = below(server, ended)
    told(server, ended, "FAILED")

    class Late(SyncPrefectClient):
        """Somebody deletes a run, and a task, before its state is set."""

        def set_flow_run_state(self, flow_run_id, *more, **options):
            if str(flow_run_id) == deleted:
                ask(f"{server}/flow_runs/{deleted}", method="DELETE")
            return super().set_flow_run_state(flow_run_id, *more, **options)

        def set_task_run_state(self, task_run_id, *more, **options):
            if str(task_run_id) == task:
                ask(f"{server}/task_runs/{task}", method="DELETE")
            return super().set_task_run_state(task_run_id, *more, **options)

    with Late(api=server) as client:
        now = datetime.now(UTC) + timedelta(seconds=300)
        done = reaping.reap(client, max_silence=120, max_start=900, resume=0, now=now)
    assert "task runs of flow runs that have ended" in done.pop()
    assert (len(done), state(server, dead)) == (1, "Crashed")


def test_runs_without_a_process_are_left_to_a_worker_of_another_machine(server, deployments):
    run = started(server, deployments["nowhere"], "PENDING")
    crash_unstarted(server, "", ["local"])
    assert state(server, run) == "Pending", "it is on the other pool"
    workers = f"{server}/work_pools/gpu/workers"
    ask(f"{workers}/heartbeat", {"name": "elsewhere"})
    crash_unstarted(server, "", ["gpu"])
    assert state(server, run) == "Pending", "that worker may have taken it"
    ask(f"{workers}/elsewhere", method="DELETE")
    ask(f"{workers}/heartbeat", {"name": worker_name("gpu")})
    crash_unstarted(server, "", ["gpu"])
    assert state(server, run) == "Crashed"
    ask(f"{workers}/{quote(worker_name('gpu'))}", method="DELETE")


def test_runs_of_others_are_left_alone(server, deployments):
    running, waiting = (started(server, deployments["theirs"], state) for state in ("RUNNING", "PENDING"))
    task, child, plain = below(server, running)
    told(server, running, "FAILED")
    assert reap(server, later=3600) == []
    assert [state(server, run) for run in (running, waiting, child)] == ["Failed", "Pending", "Running"]
    assert {task_state(server, run) for run in (task, plain)} == {"RUNNING"}
    told(server, child, "CANCELLED")
    told(server, waiting, "CANCELLED")


def test_a_run_whose_parent_was_deleted_is_ended_and_stops_nothing(server, deployments):
    root, dead = (started(server, deployments["nowhere"], "RUNNING") for _ in range(2))
    _, child, _ = below(server, root, "envwright")
    ask(f"{server}/flow_runs/{root}", method="DELETE")
    assert reap(server) == [], "it may be a root run"
    done = reap(server, later=300)
    assert [state(server, run) for run in (child, dead)] == ["Crashed", "Crashed"], done
    assert reap(server, later=300) == []


def test_more_than_fits_on_a_page_is_found(server, deployments):
    roots = [started(server, deployments["nowhere"], "RUNNING") for _ in range(3)]
    for number in range(5):
        ask(
            f"{server}/task_runs/",
            {
                "flow_run_id": roots[0],
                "task_key": "draw",
                "dynamic_key": str(number),
                "state": {"type": "RUNNING"},
            },
        )
    done = reap(server, page=2, later=300)
    assert len(done) == 4, done
    assert done[-1] == "5 task runs of flow runs that have ended: crashed"
    assert {state(server, root) for root in roots} == {"Crashed"}


def test_a_run_is_resumed_as_often_as_allowed_whatever_its_run_count(server, deployments):
    run = started(server, deployments["nowhere"], "RUNNING")
    for expected in ("Scheduled", "Scheduled", "Crashed"):
        told(server, run, "RUNNING")
        assert len(reap(server, resume=2, later=300)) == 1
        assert state(server, run) == expected


def test_what_runs_below_a_run_that_has_ended_is_ended_too(server, deployments):
    root = started(server, deployments["nowhere"], "RUNNING")
    task, child, plain = below(server, root, "envwright")
    assert reap(server) == []
    told(server, root, "FAILED")
    done = reap(server)
    assert len(done) == 2, done
    assert state(server, child) == "Crashed"
    assert (task_state(server, task), task_state(server, plain)) == ("CRASHED", "CRASHED")
    assert reap(server) == []


@pytest.fixture
def inbox() -> Iterator[tuple[str, list[dict]]]:
    """The address of a webhook and what it got."""
    got: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as webhook:
        threading.Thread(target=webhook.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{webhook.server_port}/hook", got
        webhook.shutdown()


def test_a_failure_and_a_suspension_are_told_to_the_webhook(server, inbox):
    address, got = inbox
    for url in ("http://127.0.0.1:9/old", address):
        done = envwright(server, "notify", url)
        assert done.returncode == 0, done.stderr
    assert len(ask(f"{server}/automations/filter")) == 2, "the second call changes the first one's"
    refused = envwright(server, "notify", "hooks.example.org")
    assert refused.returncode == 2
    assert "hooks.example.org" in refused.stderr

    command = [sys.executable, "-c", "from served_flows import failing; failing(return_state=True)"]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parent,
        env={**os.environ, "PREFECT_API_URL": server},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    eventually(lambda: len(got) == 1)
    [flow] = [found["id"] for found in ask(f"{server}/flows/filter") if found["name"] == "curriculum"]
    waiting = ask(f"{server}/flow_runs/", {"flow_id": flow, "name": "waits", "state": {"type": "RUNNING"}})[
        "id"
    ]
    told(server, waiting, "PAUSED", "Suspended")
    eventually(lambda: len(got) == 2)

    failed, suspended = got
    assert failed["state"] == "Failed"
    assert 'the "map" is gone' in failed["text"]
    assert (suspended["run"], suspended["state"]) == ("waits", "Suspended")
    assert UUID(suspended["url"].rpartition("/")[2]) == UUID(waiting)
    assert "approval" in suspended["text"]
