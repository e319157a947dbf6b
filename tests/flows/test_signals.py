"""Signals inside `stoppable`, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALARMED = """
import os, signal, sys, time
from flows.stopping import stoppable
signal.signal(signal.SIGALRM, lambda *_: print("alarm", flush=True))
with stoppable():
    os.kill(os.getpid(), signal.SIGALRM)
    time.sleep(0.3)
    for number in map(int, sys.argv[1:]):
        try:
            os.kill(os.getpid(), number)
            time.sleep(0.3)
        except BaseException:
            pass
    time.sleep(5)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signals", "code", "said"),
    [
        ((), 0, ""),
        ((15,), 143, "stopping (SIGTERM)\n"),
        ((2, 14, 2), 130, "stopping (Ctrl-C)\n"),
    ],
)
def test_a_signal_that_asks_for_nothing_ends_nothing(signals: tuple[int, ...], code: int, said: str):
    done = subprocess.run(
        [sys.executable, "-c", ALARMED, *map(str, signals)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (code, said)
    assert done.stdout == "alarm\n" * (1 + signals.count(14))


IMPORTING = """
import builtins, os, runpy, signal
find = builtins.__import__
def interrupted(name, *more, **options):
    if name == "flows.commands":
        os.kill(os.getpid(), signal.SIGINT)
    return find(name, *more, **options)
builtins.__import__ = interrupted
runpy.run_module("flows.cli", run_name="__main__")
"""


def test_ctrl_c_while_a_command_is_still_imported_ends_it_without_a_word():
    command = [sys.executable, "-c", IMPORTING]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
