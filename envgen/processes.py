"""Processes that do not outlive the one that started them."""

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_STOPPED = "somebody asked it to end; run the same command again to go on"
_CRASHED = "it crashed in a library; `envwright --version --verbose` shows the versions"
_MEANINGS: dict[int, str] = {
    signal.SIGKILL: "often for lack of memory; close other programs, or lower what it takes at a time",
    signal.SIGTERM: _STOPPED,
    signal.SIGINT: _STOPPED,
    signal.SIGHUP: _STOPPED,
    signal.SIGSEGV: _CRASHED,
    signal.SIGABRT: _CRASHED,
    signal.SIGBUS: "of a disk or shared memory that is full, or a broken file",
    signal.SIGILL: "this processor lacks an instruction of a library",
    signal.SIGXCPU: "its limit of CPU time was reached",
}
"""What a signal that ended a process usually means, and the remedy."""
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when the thread that started it ends; Linux only.

    `parent` is the process of that thread.
    """
    if sys.platform != "linux":
        return
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was told
        os.kill(os.getpid(), signal.SIGKILL)


def own_modules_first() -> dict[str, str]:
    """Environment of a Python child that finds envwright's modules whatever lies in the working directory."""
    before = [path for path in (os.environ.get("PYTHONPATH"),) if path]
    return {
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *before]),
    }


def ended(status: int) -> str:
    """How a process ended, from its return code, and what to do: `ended with exit code 3`, `was killed by
    SIGSEGV (...)`."""
    if status >= 0:
        return f"ended with exit code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    meaning = _MEANINGS.get(-status)
    return f"was killed by {name} ({meaning})" if meaning else f"was killed by {name}"
