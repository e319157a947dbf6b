"""A Prefect server, a worker and a folder of runs that may be killed and started again at will."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

sys.path.append(str(Path(__file__).parents[1]))
from servers import answers, free_port

SETTINGS = {"trl.save_steps": 1, "instances": 8, "validation.instances": 2, "design.pilot": 4}
"""The micro preset made smaller still, with a trainer checkpoint after each step."""
ROOT = Path(__file__).parents[2]
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
PATIENCE = 300


class Victims(NamedTuple):
    """Processes of a run at the moment of the kill."""

    flow: int | None
    children: tuple[int, ...]


class Lane:
    """One server and one worker; whatever of them is dead is started again by `up`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, folder / "runs"
        self.runs.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.api = f"http://127.0.0.1:{self.port}/api"
        self._server: subprocess.Popen | None = None
        self._worker: subprocess.Popen | None = None
        self._deployment: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What processes of this lane have in their environment."""
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
        if self._server is None or self._server.poll() is not None:
            self._server = self._start("server", ["server", "start", "--host", "127.0.0.1", "--port", str(self.port)])
            _until(lambda: answers(f"{self.api}/health"), "the server answers")
        if self._deployment is None:
            self._deployment = self._deploy()
        if self._worker is None or self._worker.poll() is not None:
            self._worker = self._start("worker", ["worker", "start", "--pool", "lane", "--name", "lane"])

    def down(self) -> None:
        """Kill all that carries this lane's folder in its environment."""
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and process.environ().get("ENVWRIGHT_RUNS") == str(self.runs):
                    process.kill()

    def _start(self, name: str, arguments: list[str]) -> subprocess.Popen:
        with open(self.folder / f"{name}.log", "a") as log:
            command = [sys.executable, "-m", "prefect", *arguments]
            return subprocess.Popen(command, env=self.environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)

    def _deploy(self) -> str:
        self._prefect("work-pool", "create", "lane", "--type", "process", "--overwrite")
        code = (
            "from flows.curriculum import curriculum\n"
            f"flow = curriculum.from_source(source={str(ROOT)!r}, entrypoint='flows/curriculum.py:curriculum')\n"
            "print(flow.deploy(name='chaos', work_pool_name='lane', tags=['envwright'], ignore_warnings=True, print_next_steps=False))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return self._call("GET", "/deployments/name/curriculum/chaos")["id"]

    def _prefect(self, *arguments: str) -> None:
        done = subprocess.run([sys.executable, "-m", "prefect", *arguments], env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.api + path, data=data, method=method, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def start(self, name: str, approval: str) -> str:
        """Start a deployment run of the curriculum in the run directory `name`; the id of the flow run."""
        parameters = {"preset": "micro", "name": name, "options": {"approval": approval, "settings": SETTINGS}}
        return self._call("POST", f"/deployments/{self._deployment}/create_flow_run", {"parameters": parameters, "state": {"type": "SCHEDULED"}})["id"]

    def state(self, flow_run: str) -> dict[str, Any]:
        """The state of a flow run."""
        return self._call("GET", f"/flow_runs/{flow_run}")["state"]

    @contextmanager
    def held(self, at: str, run: Path) -> Iterator[Callable[[str], Victims]]:
        """Hold a run at a point; the function given waits until a flow run is there. It goes on when this ends."""
        path = run / "stage-01" / ".steps" / f"{at}.lock"
        if at in {"training", "answering", "approval"}:
            yield lambda flow_run: self._reached(at, run, flow_run)
            return
        with open(path, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            inode = os.stat(path).st_ino
            yield lambda flow_run: self._victims(_until(lambda: _waiting_for(inode), f"{run.name} comes to {at}", self.problem(flow_run)))

    def _reached(self, at: str, run: Path, flow_run: str) -> Victims:
        problem = self.problem(flow_run)
        if at == "approval":
            _until(lambda: self.state(flow_run)["name"] == "Suspended", f"{run.name} is suspended", problem)
            return Victims(None, ())
        module = "policy.training" if at == "training" else "policy.engine_child"
        if at == "training":
            work = run / "stage-01" / "work"
            _until(lambda: any(work.glob("checkpoint-*/trainer_state.json")), f"{run.name} has a trainer checkpoint", problem)
        else:
            _until((run / "stage-01" / "logs" / "engine.log").exists, f"{run.name} starts its engine", problem)
        child = _until(lambda: self._child(module), f"a child runs {module}", problem)
        return self._victims(child.ppid())

    def problem(self, flow_run: str) -> Callable[[], str | None]:
        """A function that says why waiting for a flow run is in vain, or None."""

        def look() -> str | None:
            state = self.state(flow_run)
            return f"it is {state['name']}: {state['message']}" if state["type"] in FINAL else None

        return look

    def _child(self, module: str) -> psutil.Process | None:
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if module in process.cmdline() and process.environ().get("ENVWRIGHT_RUNS") == str(self.runs):
                    return process
        return None

    def _victims(self, flow: int) -> Victims:
        return Victims(flow, tuple(child.pid for child in psutil.Process(flow).children(recursive=True)))

    def kill(self, what: str, victims: Victims) -> None:
        """Send SIGKILL to a part of the lane, or to all of it at once."""
        assert self._server is not None
        assert self._worker is not None
        parts = {
            "flow": [victims.flow],
            "child": [*victims.children],
            "worker": [self._worker.pid],
            "server": [self._server.pid, *(child.pid for child in psutil.Process(self._server.pid).children(recursive=True))],
        }
        parts["machine"] = [*parts["flow"], *parts["worker"], *parts["server"], *parts["child"]]
        for pid in filter(None, parts[what]):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process, part in ((self._server, "server"), (self._worker, "worker")):
            if what in {part, "machine"}:
                process.wait(30)

    def settle(self, victims: Victims, flow_run: str) -> None:
        """Wait until the flow process has ended, one way or another, and its children with it; the worker may still report the end."""
        pids = [pid for pid in (victims.flow, *victims.children) if pid]
        _until(lambda: not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids), "the run's processes end")
        with suppress(TimeoutError):
            _until(lambda: self.state(flow_run)["type"] in FINAL | {"PAUSED"}, "a final state", patience=10)

    def approve(self, flow_run: str) -> None:
        """Submit the approval form with the config that it shows."""
        keys = self.state(flow_run)["state_details"]["run_input_keyset"]
        schema = self._call("GET", f"/flow_runs/{flow_run}/input/{keys['schema']}")
        answer = {"decision": "approve", "config": schema["properties"]["config"]["default"]}
        result = self._call("POST", f"/flow_runs/{flow_run}/resume", {"run_input": answer})
        assert result["status"] == "ACCEPT", result

    def completed(self, flow_run: str) -> None:
        """Wait until a flow run has completed."""

        def done() -> bool:
            state = self.state(flow_run)
            assert state["type"] not in FINAL - {"COMPLETED"}, f"{state['name']}: {state['message']}"
            return state["type"] == "COMPLETED"

        _until(done, "the run completes")

    def resume(self, how: str, flow_run: str, name: str, approval: str) -> None:
        """Go on with a run: `retry` its flow run, start a `new run` of the deployment, or the `command`."""
        if how == "command":
            command_line(self.runs, name, approval, self.environment)
        elif how == "new run":
            self.completed(self.start(name, approval))
        else:
            if self.state(flow_run)["type"] not in FINAL:
                self._reap()
            self._prefect("flow-run", "retry", flow_run)
            self.completed(flow_run)

    def _reap(self) -> None:
        """What the janitor does, without waiting for its two minutes of silence."""
        code = (
            "from datetime import UTC, datetime\nfrom prefect.client.orchestration import get_client\nfrom infra.serving.reaping import reap\n"
            "with get_client(sync_client=True) as client:\n    print(reap(client, max_silence=1, max_start=1, resume=0, now=datetime.now(UTC)))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr

    def records(self, run: Path) -> list[str]:
        """What MLflow has of a run that it should not have, or lacks: one run for the curriculum and one for each stage."""
        from mlflow import MlflowClient

        client = MlflowClient(f"sqlite:///{self.runs}/mlflow.db")
        experiment = client.get_experiment_by_name("envwright")
        assert experiment is not None
        roots = client.search_runs([experiment.experiment_id], f"attributes.run_name = '{run.name}' AND tags.level = 'curriculum'")
        if len(roots) != 1:
            return [f"{len(roots)} records of the curriculum in MLflow"]
        stages = client.search_runs([experiment.experiment_id], f"tags.`mlflow.parentRunId` = '{roots[0].info.run_id}' AND tags.level = 'stage'")
        return [] if len(stages) == 2 else [f"{len(stages)} records of stages in MLflow"]


def command_line(runs: Path, name: str, approval: str = "none", environment: dict[str, str] | None = None) -> None:
    """Run the curriculum from the shell."""
    settings = [part for key, value in {**SETTINGS, "approval": approval}.items() for part in ("--set", f"{key}={value}")]
    variables = environment or {
        **os.environ,
        "ENVWRIGHT_RUNS": str(runs),
        "PREFECT_HOME": str(runs / ".prefect"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "flows.cli", "run", "micro", "--name", name, *settings]
    done = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def _waiting_for(inode: int) -> int | None:
    """The process that waits for a file lock; /proc/locks marks waiting ones with an arrow."""
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if "->" in fields and fields[-3].endswith(f":{inode}"):
            return int(fields[-4])
    return None


def _until(done: Callable[[], Any], what: str, problem: Callable[[], str | None] = lambda: None, patience: float = PATIENCE) -> Any:
    """What `done` returns once that is true; TimeoutError after `patience` seconds, AssertionError once there is a problem."""
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
