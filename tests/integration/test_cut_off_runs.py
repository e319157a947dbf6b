"""A run under `envwright serve` that a `kill -9` cuts off is marked within three minutes and can be
retried."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.envwright_serve import Served, serving, wait_until
from support.prefect_servers import flow_runs

pytestmark = [pytest.mark.long, pytest.mark.timeout(3000)]
RUN = "prefect.engine"
"""In the command line of a run."""
GOING_ON = {
    "worker": "worker start --pool local",
    "janitor": "flows.cli janitor",
    "run": RUN,
}
"""What `serve` outlives, with words of its command line."""
ENDING = {"Prefect server": "prefect_server", "MLflow server": "mlflow server", "serve": None, "all": ""}
"""What it does not: a server, itself, and all of it."""
MARKED = 180
FINAL = {"COMPLETED", "CRASHED", "FAILED"}


def run_of(served: Served) -> dict:
    """The curriculum's own run."""
    [run] = [run for run in flow_runs(served.api) if run["deployment_id"]]
    return run


def kill(served: Served, words: str | None) -> None:
    """Kill the processes with these words; with none of them `serve` itself, alone or with all that it
    started."""
    pids = [] if words else [served.process.pid]
    if words is not None:
        pids += [int(line.partition(":")[0]) for line in served.left() if words in line]
    assert pids
    for pid in pids:
        with suppress(ProcessLookupError):  # it ended with one that was killed before
            os.kill(pid, signal.SIGKILL)


def cut_off(served: Served, words: str | None) -> None:
    """Kill in the middle of a run."""
    assert served.run("deployment", "run", "curriculum/micro", "-p", "name=cut").returncode == 0
    wait_until((served.folder / "runs" / "cut" / "stage-00").exists, 600)
    kill(served, words)


@pytest.mark.parametrize("victim", GOING_ON)
def test_what_serve_outlives_it_marks(tmp_path: Path, victim: str):
    with serving(tmp_path) as served:
        cut_off(served, GOING_ON[victim])
        see_through(served)
        assert served.process.poll() is None


@pytest.mark.parametrize("victim", ENDING)
def test_what_ends_serve_is_marked_by_the_next_one(tmp_path: Path, victim: str):
    with serving(tmp_path) as served:
        cut_off(served, ENDING[victim])
        served.process.wait(60)
    with serving(tmp_path) as served:
        see_through(served)


def see_through(served: Served) -> None:
    """Once its process is gone the run ends within the time, and well if it is retried."""
    alive = time.monotonic()
    while (run := run_of(served))["state"]["type"] not in FINAL:
        if any(RUN in line for line in served.left()):
            alive = time.monotonic()
        assert time.monotonic() < alive + MARKED, run["state"]
        time.sleep(1)
    if run["state"]["type"] != "COMPLETED":
        assert run["state"]["type"] == "CRASHED", run["state"]
        done = served.run("flow-run", "retry", run["id"])
        assert done.returncode == 0, done.stdout + done.stderr
        wait_until(lambda: run_of(served)["state"]["type"] == "COMPLETED", 600)
    assert "Traceback" not in (served.folder / "runs" / ".serve" / "janitor.log").read_text()
