"""`envwright` in a process of its own, as a person calls it, with all that it writes in one folder."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flows.environment import prepare
from support.prefect_servers import processes_with

ROOT = Path(__file__).parents[2]
ENVWRIGHT = [sys.executable, "-m", "flows.cli"]
prepare()  # the fork server imports Prefect, which reads settings as it is imported
LOG = "command.log"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
"""Signal -> exit code of a command that it ends."""
FORKS = multiprocessing.get_context("forkserver")
"""Processes that find imported what a run imports, which takes four seconds."""
_LOADED = ["flows.cli", "flows.curriculum", "infra.report.page", "envgen.mapf.solver.solve"]
FORKS.set_forkserver_preload([*_LOADED, "mlflow.store.tracking.sqlalchemy_store"])


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The variables of a command that keeps its runs, and Prefect's database, in `folder`."""
    # MLflow puts the store that another test opened into the environment.
    inherited = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    places = {"ENVWRIGHT_RUNS": str(folder / "runs"), "PREFECT_HOME": str(folder / "prefect")}
    return {**inherited, **places, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "160", **more}


def envwright(
    folder: Path, *arguments: object, code: int = 0, timeout: float = 600, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in `folder` to its end, which is with this exit code."""
    said = [folder / name for name in ("stdout", "stderr")]
    process = FORKS.Process(target=_command, args=(folder, environment(folder, **more), said, arguments))
    process.start()
    process.join(timeout)
    process.kill()
    out, err = (path.read_text() for path in said)
    assert process.exitcode == code, out + err
    return subprocess.CompletedProcess(arguments, code, out, err)


def _command(
    folder: Path, variables: dict[str, str], said: Sequence[Path], arguments: Sequence[object]
) -> None:
    from prefect.context import refresh_global_settings_context

    from flows.cli import main

    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    for descriptor, path in enumerate(said, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    refresh_global_settings_context()
    sys.argv = ["envwright", *map(str, arguments)]
    main()


def started(folder: Path, *arguments: object, **more: str) -> subprocess.Popen[bytes]:
    """Start a command as leader of a new process group, as a terminal does; it prints to `command.log`."""
    with open(folder / LOG, "w") as out:
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out}
        command, variables = [*ENVWRIGHT, *map(str, arguments)], environment(folder, **more)
        return subprocess.Popen(
            command, cwd=folder, env=variables, start_new_session=True, preexec_fn=_heed, **pipes
        )


def _heed() -> None:
    """Undo that signals are ignored, as in what a script starts in the background."""
    for number in CODES:
        signal.signal(number, signal.SIG_DFL)


def wait_for(there: Callable[[], object], process: subprocess.Popen, folder: Path) -> str:
    """Wait until `there()` is true for a running command; return its output up to then."""
    log, deadline = folder / LOG, time.monotonic() + 400
    while not there():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"waited in vain: {log.read_text()}"
        time.sleep(0.05)
    return log.read_text()


def killed_once(there: Callable[[], object], folder: Path, *arguments: object, **more: str) -> None:
    """Start a command, and kill it with its process group once something is there."""
    process = started(folder, *arguments, **more)
    wait_for(there, process, folder)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def stop_at_once(process: subprocess.Popen, number: signal.Signals, folder: Path, printed: str) -> None:
    """Signal a running command: it ends within ten seconds, adds one line to its output `printed`, and leaves
    no process behind."""
    if number is signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, number)
    assert process.wait(10) == CODES.get(number, -number)
    deadline = time.monotonic() + 3
    while left := processes_with(ENVWRIGHT_RUNS=str(folder / "runs")):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    if number in CODES:
        later = (folder / LOG).read_text().removeprefix(printed).splitlines()
        [line] = [line for line in later if line and not line[:2].isdigit()]
        assert line.startswith("stopping (")
