"""A run that is told to end does so at once, in one line, and leaves no process behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.envwright_command import ENVWRIGHT, ROOT, environment
from support.envwright_serve import wait_until
from support.prefect_servers import processes_with

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
MICRO, SIMULATED = (("run", name, "--stages", "1", "--set", "epochs=500") for name in ("micro", "simulated"))
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
SECONDS = 10


def left(folder: Path) -> list[str]:
    """What is still there of all that a command started, whoever the parent is now."""
    return processes_with(ENVWRIGHT_RUNS=str(folder / "runs"))


def heeded() -> None:
    """Undo that the signals are ignored, as in what a script starts in the background."""
    for number in CODES:
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("command", "moment", "number"),
    [
        (MICRO, "stage 0: step ", signal.SIGINT),
        (SIMULATED, "validation set: ", signal.SIGTERM),
        pytest.param(SIMULATED, "starting the orchestrator", signal.SIGINT, marks=pytest.mark.long),
        pytest.param(MICRO, "stage 0: step ", signal.SIGHUP, marks=pytest.mark.long),
        pytest.param(MICRO, "stage 0: step ", signal.SIGKILL, marks=pytest.mark.long),
    ],
)
def test_a_run_that_is_told_to_end_is_gone_at_once(
    tmp_path: Path, server: str, command: tuple[str, ...], moment: str, number: signal.Signals
):
    # The simulated run starts its own server, which has to end too.
    address = {"PREFECT_API_URL": server} if command is MICRO else {}
    log = tmp_path / "out"
    with open(log, "w") as out:
        process = subprocess.Popen(
            [*ENVWRIGHT, *command],
            cwd=tmp_path,
            env=environment(tmp_path, **address),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # as a terminal gives it one
            preexec_fn=heeded,
        )
    try:
        wait_until(lambda: moment in log.read_text() or process.poll() is not None, 240)
        assert process.poll() is None, log.read_text()
        before = log.read_text()
        if number is signal.SIGKILL:
            process.kill()
        else:
            os.killpg(process.pid, number)
        assert process.wait(SECONDS) == CODES.get(number, -number)
        wait_until(lambda: not left(tmp_path), 3)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    if number in CODES:
        lines = [line for line in log.read_text().removeprefix(before).splitlines() if not line[:2].isdigit()]
        assert next(line for line in lines if line).startswith("stopping (")
        assert len([line for line in lines if line]) == 1


def test_a_sigterm_that_prefect_made_an_error_of_ends_the_run_in_one_line():
    program = """
from prefect.exceptions import TerminationSignal
from flows.stopping import run_stoppable

def command():
    try:
        raise TerminationSignal(signal=15)
    except TerminationSignal:
        raise ValueError("Task run is not set")

run_stoppable(command)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (143, "stopping (SIGTERM); complete steps are kept\n")
