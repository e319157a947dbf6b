"""A Prefect server with a worker and a deployment of the curriculum, to start runs on and to answer them."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from support.prefect_servers import answers, ask, free_port, processes_with

SETTINGS = {"trl.save_steps": 1, "instances": 8, "validation.instances": 2}
"""The micro preset made smaller still, with a trainer checkpoint after each step."""
ROOT = Path(__file__).parents[2]
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
PATIENCE = 300


class Deployed:
    """One server and one worker; whatever of them is dead is started again by `up`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, folder / "runs"
        self.runs.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.api = f"http://127.0.0.1:{self.port}/api"
        self.server: subprocess.Popen | None = None
        self.worker: subprocess.Popen | None = None
        self._deployment: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What its processes have in their environment."""
        given = {
            "PREFECT_HOME": str(self.folder / "prefect"),
            "PREFECT_API_URL": self.api,
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_WORKER_QUERY_SECONDS": "2",
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
            "PREFECT_LOGGING_EXTRA_LOGGERS": "envwright",
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
            "ENVWRIGHT_RUNS": str(self.runs),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        return {**os.environ, **given}

    def up(self) -> None:
        """Start what is not running, and wait until it can be used."""
        if self.server is None or self.server.poll() is not None:
            self.server = self._start(
                "server", ["server", "start", "--host", "127.0.0.1", "--port", str(self.port)]
            )
            until(lambda: answers(f"{self.api}/health"), "the server answers")
        if self._deployment is None:
            self._deployment = self._deploy()
        if self.worker is None or self.worker.poll() is not None:
            self.worker = self._start("worker", ["worker", "start", "--pool", "here", "--name", "here"])

    def down(self) -> None:
        """Kill all that carries its folder in its environment."""
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and process.environ().get("ENVWRIGHT_RUNS") == str(self.runs):
                    process.kill()
        for process in filter(None, (self.server, self.worker)):
            process.wait(30)

    def server_processes(self) -> list[int]:
        """The server and what it started."""
        assert self.server is not None
        return [
            self.server.pid,
            *(child.pid for child in psutil.Process(self.server.pid).children(recursive=True)),
        ]

    def kill_server(self) -> None:
        """Send SIGKILL to the server."""
        assert self.server is not None
        for pid in self.server_processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.server.wait(30)

    def _start(self, name: str, arguments: list[str]) -> subprocess.Popen:
        with open(self.folder / f"{name}.log", "a") as log:
            command = [sys.executable, "-m", "prefect", *arguments]
            return subprocess.Popen(
                command, env=self.environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )

    def _deploy(self) -> str:
        self.run("prefect", "work-pool", "create", "here", "--type", "process", "--overwrite")
        code = (
            f"from flows.curriculum import curriculum\nflow = curriculum.from_source(source={str(ROOT)!r},"
            " entrypoint='flows/curriculum.py:curriculum')\nprint(flow.deploy(name='here',"
            " work_pool_name='here', tags=['envwright'], ignore_warnings=True, print_next_steps=False))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return self.call("GET", "/deployments/name/curriculum/here")["id"]

    def run(self, module: str, *arguments: str, code: int = 0) -> None:
        """Run a command to its end, which is with this exit code: `prefect`, or `flows.cli` for envwright."""
        command = [sys.executable, "-m", module, *arguments]
        done = subprocess.run(
            command, env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == code, done.stdout + done.stderr

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """What the server's API answers."""
        return ask(self.api + path, body, method)

    def start(self, name: str, approval: str) -> str:
        """Start a deployment run of the curriculum in the run directory `name`; the id of the flow run."""
        parameters = {
            "preset": "micro",
            "name": name,
            "options": {"approval": approval, "settings": SETTINGS},
        }
        return self.call(
            "POST",
            f"/deployments/{self._deployment}/create_flow_run",
            {"parameters": parameters, "state": {"type": "SCHEDULED"}},
        )["id"]

    def state(self, flow_run: str) -> dict[str, Any]:
        """The state of a flow run."""
        return self.call("GET", f"/flow_runs/{flow_run}")["state"]

    def form(self, flow_run: str, part: str = "schema") -> Any:
        """What a suspended flow run asks for: the schema of its form, or the description above it."""
        return self.call(
            "GET",
            f"/flow_runs/{flow_run}/input/{self.state(flow_run)['state_details']['run_input_keyset'][part]}",
        )

    def proposed(self, flow_run: str) -> dict[str, dict[str, float]]:
        """The config that the form of a suspended flow run shows."""
        return self.form(flow_run)["properties"]["config"]["default"]

    def answer(self, flow_run: str, **answer: Any) -> str:
        """Submit the form of a suspended flow run; ACCEPT, or REJECT if the server does not take it."""
        return self.call("POST", f"/flow_runs/{flow_run}/resume", {"run_input": answer} if answer else {})[
            "status"
        ]

    def approve(self, flow_run: str) -> None:
        """Submit the approval form with the config that it shows."""
        assert self.answer(flow_run, decision="approve", config=self.proposed(flow_run)) == "ACCEPT"

    def problem(self, flow_run: str) -> Callable[[], str | None]:
        """A function that says why waiting for a flow run is in vain, or None."""

        def look() -> str | None:
            state = self.state(flow_run)
            return f"it is {state['name']}: {state['message']}" if state["type"] in FINAL else None

        return look

    def suspended(self, flow_run: str, since: str | None = None) -> str:
        """Wait until a flow run is suspended and its process has ended, anew if the id of an earlier state is
        given; the id of its state."""

        def there() -> bool:
            state = self.state(flow_run)
            return state["name"] == "Suspended" and state["id"] != since

        until(there, "the run is suspended", self.problem(flow_run))
        # Prefect's worker loses a run that is resumed while the process that suspended it is still ending.
        until(lambda: not processes_with(PREFECT__FLOW_RUN_ID=flow_run), "its process ends")
        return self.state(flow_run)["id"]

    def completed(self, flow_run: str) -> None:
        """Wait until a flow run has completed."""

        def done() -> bool:
            state = self.state(flow_run)
            assert state["type"] not in FINAL - {"COMPLETED"}, f"{state['name']}: {state['message']}"
            return state["type"] == "COMPLETED"

        until(done, "the run completes")


def run_command(name: str, approval: str) -> list[str]:
    """The arguments of envwright that run the curriculum which `Deployed.start` starts."""
    settings = [
        part
        for key, value in {**SETTINGS, "approval": approval}.items()
        for part in ("--set", f"{key}={value}")
    ]
    return ["run", "micro", "--name", name, *settings]


def command_line(
    runs: Path, name: str, approval: str = "none", environment: dict[str, str] | None = None
) -> None:
    """Run the curriculum from the shell."""
    variables = environment or {
        **os.environ,
        "ENVWRIGHT_RUNS": str(runs),
        "PREFECT_HOME": str(runs / ".prefect"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "flows.cli", *run_command(name, approval)]
    done = subprocess.run(
        command, env=variables, cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def copy_stage_zero(base: Path, run: Path) -> None:
    """A run directory with the finished stage 0 of another."""
    shutil.copytree(base, run, ignore=shutil.ignore_patterns("stage-01", "results.json", "report.html"))
    (run / "stage-01" / ".steps").mkdir(parents=True)


def until(
    done: Callable[[], Any],
    what: str,
    problem: Callable[[], str | None] = lambda: None,
    patience: float = PATIENCE,
) -> Any:
    """What `done` returns once that is true; TimeoutError after `patience` seconds, AssertionError once there
    is a problem."""
    deadline, look = time.monotonic() + patience, time.monotonic() + 5
    while not (found := done()):
        if time.monotonic() > look:
            look = time.monotonic() + 5
            found = problem()
            assert found is None, f"waiting until {what}: {found}"
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {patience:.0f} s")
        time.sleep(0.2)
    return found
