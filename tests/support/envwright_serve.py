"""`envwright serve` as tests start it: in a folder and on ports of its own."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envgen.processes import free_port
from support.prefect_servers import flow_runs, processes_with, wait_until

ROOT = Path(__file__).parents[2]
CONFIGURED = ("PREFECT_", "MLFLOW_", "ENVWRIGHT_RUNS")


def person() -> dict[str, str]:
    """The variables of a shell in which nothing of envwright, Prefect or MLflow is configured."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(CONFIGURED)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return inherited | {"PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


class Served:
    """An `envwright serve` in a folder of its own, and what it printed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.prefect, self.mlflow = folder, free_port(), free_port()
        self.environment, self.out = person(), folder / "serve.out"
        ports = ["--prefect-port", str(self.prefect), "--mlflow-port", str(self.mlflow)]
        command = [sys.executable, "-u", "-m", "flows.cli", "serve", *ports]
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(
                command, cwd=folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    @property
    def exports(self) -> dict[str, str]:
        """What `. runs/.serve/env` sets in another terminal."""
        lines = (self.folder / "runs" / ".serve" / "env").read_text().splitlines()
        return dict(shlex.split(line)[1].split("=", 1) for line in lines)

    @property
    def auth_string(self) -> str:
        """The login."""
        return self.exports["PREFECT_API_AUTH_STRING"]

    @property
    def api(self) -> str:
        """The address of Prefect's API, with the login."""
        return f"http://{self.auth_string}@127.0.0.1:{self.prefect}/api"

    def is_ready(self) -> bool:
        """Whether all its servers are up; AssertionError if it has ended."""
        assert self.process.poll() is None, self.out.read_text()
        return "Ctrl-C ends it all" in self.out.read_text()

    def left(self) -> list[str]:
        """Processes that were started by it, whoever their parent is now."""
        return processes_with(ENVWRIGHT_RUNS=str((self.folder / "runs").resolve()))

    def run(self, module: str, *arguments: str) -> subprocess.CompletedProcess:
        """Run a command in the folder, as in another terminal."""
        command = [sys.executable, "-m", module, *arguments]
        environment = self.environment | self.exports
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=240
        )

    def start(self, name: str, options: str = "{}") -> None:
        """Start a deployed run of the micro preset."""
        parameters = ("-p", f"name={name}", "-p", f"options={options}")
        done = self.run("prefect", "deployment", "run", "curriculum/micro", *parameters)
        assert done.returncode == 0, done.stdout + done.stderr

    def flow_run(self, name: str) -> dict[str, Any]:
        """The flow run of this name; an empty one if there is none."""
        return next((run for run in flow_runs(self.api) if run["name"] == name), {"state": {"name": ""}})

    def reach(self, name: str, state: str, seconds: float = 600) -> None:
        """Wait until a run is in a state; AssertionError if it fails."""

        def reached() -> bool:
            run = self.flow_run(name)
            assert run["state"]["name"] not in {"Failed", "Crashed"} - {state}, run["state"]
            return run["state"]["name"] == state

        wait_until(reached, seconds)


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """An `envwright serve` from when it is ready; at the end it is killed, and leaves nothing."""
    served = Served(folder)
    try:
        wait_until(served.is_ready, 600)  # beside other work
        yield served
    finally:
        if served.process.poll() is None:
            served.process.kill()
        served.process.wait()
        wait_until(lambda: not served.left())
