"""`envwright serve` as tests start it: in a folder and on ports of its own."""

import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from support.prefect_servers import free_port, processes_with

ROOT = Path(__file__).parents[2]
CONFIGURED = {
    "PREFECT_HOME",
    "PREFECT_LOCAL_STORAGE_PATH",
    "PREFECT_API_URL",
    "MLFLOW_TRACKING_URI",
    "ENVWRIGHT_RUNS",
}
CONFIGURED |= {"PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING"}


def person() -> dict[str, str]:
    """The variables of a shell in which nothing of envwright, Prefect or MLflow is configured."""
    inherited = {name: value for name, value in os.environ.items() if name not in CONFIGURED}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return inherited | {"PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


class Served:
    """An `envwright serve` in a folder of its own, and what it printed."""

    def __init__(self, folder: Path, arguments: Sequence[str] = (), **environment: str) -> None:
        self.folder, self.prefect, self.mlflow = folder, free_port(), free_port()
        self.environment = person() | environment
        self.out = folder / "serve.out"
        command = [
            sys.executable,
            "-u",
            "-m",
            "flows.cli",
            "serve",
            "--prefect-port",
            str(self.prefect),
            "--mlflow-port",
            str(self.mlflow),
            *arguments,
        ]
        with open(self.out, "w") as out:
            self.process = subprocess.Popen(
                command, cwd=folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    @property
    def auth_string(self) -> str:
        """What logs in, as other terminals find it."""
        return tomllib.loads((self.folder / "prefect.toml").read_text())["api"]["auth_string"]

    @property
    def api(self) -> str:
        """The address of Prefect's API, with what logs in."""
        return f"http://{self.auth_string}@127.0.0.1:{self.prefect}/api"

    def wait_for(self, text: str, seconds: float = 240) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.out.read_text():
            assert self.process.poll() is None, self.out.read_text()
            assert time.monotonic() < deadline, f"{text!r} is not in: {self.out.read_text()}"
            time.sleep(0.2)

    def left(self) -> list[str]:
        """Processes that were started by it, whoever their parent is now."""
        return processes_with(ENVWRIGHT_RUNS=str((self.folder / "runs").resolve()))

    def the(self, *words: str) -> psutil.Process:
        """The process of it with these words in its command line."""
        [line] = [line for line in self.left() if all(word in line for word in words)]
        return psutil.Process(int(line.partition(":")[0]))

    def run(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run Prefect's command in the folder, as in another terminal."""
        command = [sys.executable, "-m", "prefect", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=180
        )


@contextmanager
def serving(folder: Path, arguments: Sequence[str] = (), **environment: str) -> Iterator[Served]:
    served = Served(folder, arguments, **environment)
    try:
        served.wait_for("Ctrl-C ends it all", 600)  # beside other work
        yield served
    finally:
        if served.process.poll() is None:
            served.process.kill()
        served.process.wait()
        wait_until(lambda: not served.left())


def wait_until(condition, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)
