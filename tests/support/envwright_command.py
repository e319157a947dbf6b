"""`envwright` in a process of its own, as a person calls it, with all that it writes in one folder."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVWRIGHT = [sys.executable, "-m", "flows.cli"]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The variables of a command that keeps its runs, and Prefect's database, in `folder`."""
    # MLflow puts the store that another test opened into the environment.
    inherited = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    places = {
        "ENVWRIGHT_RUNS": str(folder / "runs"),
        "PREFECT_HOME": str(folder / "prefect"),
        "PYTHONPATH": str(ROOT),
    }
    return {**inherited, **places, "OMP_NUM_THREADS": "1", "COLUMNS": "160", **more}


def envwright(
    folder: Path, *arguments: object, code: int = 0, timeout: float = 600, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in `folder` to its end, which is with this exit code."""
    command = [*ENVWRIGHT, *map(str, arguments)]
    variables = environment(folder, **more)
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def killed_once(
    there: Callable[[], object], folder: Path, *arguments: object, group: bool = True, **more: str
) -> int:
    """Start a command, kill it (and its process group, unless told otherwise) once something is there; its
    process group."""
    log = folder / "killed.log"
    with open(log, "w") as out:
        command = [*ENVWRIGHT, *map(str, arguments)]
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(folder, **more),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        deadline = time.monotonic() + 400
        while not there():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, f"nothing to kill it for: {log.read_text()}"
            time.sleep(0.05)
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
    return process.pid
