"""Processes that do not outlive the one that started them."""

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
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
    """How a process ended, from its return code: `ended with exit code 3`, `was killed by SIGSEGV`."""
    if status >= 0:
        return f"ended with exit code {status}"
    if status == -signal.SIGKILL:
        return "was killed by SIGKILL, as the kernel does when memory runs out"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
