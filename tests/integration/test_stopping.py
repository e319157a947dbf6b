"""A run that is told to end does so at once, in one line, and leaves no process behind."""

import signal
import subprocess
import sys

import pytest
from support.envwright_command import LOG, ROOT, started, stop_at_once, wait_for
from support.prefect_servers import copy_tables, prefect_tables

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
MICRO, SIMULATED = (("run", name, "--stages", "1", "--set", "epochs=500") for name in ("micro", "simulated"))


@pytest.mark.parametrize(
    ("command", "moment", "number"),
    [
        (SIMULATED, "validation set: ", signal.SIGTERM),
        pytest.param(SIMULATED, "starting Prefect", signal.SIGINT, marks=pytest.mark.long),
        pytest.param(MICRO, "stage 0: step ", signal.SIGHUP, marks=pytest.mark.long),
        pytest.param(MICRO, "stage 0: step ", signal.SIGKILL, marks=pytest.mark.long),
    ],
)
def test_a_run_that_is_told_to_end_is_gone_at_once(tmp_path, shared, server, command, moment, number):
    """One that is interrupted in training is a golden run."""
    # The simulated run starts its own server, which has to end too, on tables that are there.
    address = {"PREFECT_API_URL": server} if command is MICRO else {}
    copy_tables(prefect_tables(shared), tmp_path / "prefect")
    process = started(tmp_path, *command, **address)
    printed = wait_for(lambda: moment in (tmp_path / LOG).read_text(), process, tmp_path)
    stop_at_once(process, number, tmp_path, printed)


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
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (143, "stopping (SIGTERM); complete steps are kept\n")
