"""Child processes that do not outlive the process that started them."""

import fcntl
import os
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

_STOPPED = "somebody asked it to end; run the same command again to go on"
_CRASHED = "it crashed in a library; `envwright --version` shows the versions"
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


def start_process(
    command: Sequence[str], *, pass_fds: Sequence[int] = (), **options: Any
) -> subprocess.Popen[Any]:
    """Start a process in its own process group, which the kernel ends when this process ends.

    Only this process holds the write end of a pipe. When that end closes, the kernel sends SIGIO to the
    group, whose default action ends a process; a process that hangs in a library ends too.
    """
    read_end, write_end = os.pipe()
    try:
        process = subprocess.Popen(command, process_group=0, pass_fds=[*pass_fds, read_end], **options)
        # The settings of a pipe's end are shared by all processes that have it.
        fcntl.fcntl(read_end, fcntl.F_SETOWN, -process.pid)
        fcntl.fcntl(read_end, fcntl.F_SETFL, fcntl.fcntl(read_end, fcntl.F_GETFL) | os.O_ASYNC)
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)
    weakref.finalize(process, os.close, write_end)
    return process


def end_with_parent() -> None:
    """End this process with its parent, for a process that a library started: on Linux at once, else within
    a second."""

    def watch(parent: int) -> None:
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):  # the parent has ended already, or the kernel is too old
                select.select([os.pidfd_open(parent)], [], [])
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, args=(os.getppid(),), name="end with parent", daemon=True).start()


def free_port() -> int:
    """Return a TCP port of this machine that nothing listens on now; others may take it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def own_modules_first() -> dict[str, str]:
    """Environment of a Python child that finds envwright's modules whatever lies in the working directory."""
    before = [path for path in (os.environ.get("PYTHONPATH"),) if path]
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *before])}


@lru_cache(maxsize=4)
def _links(names: tuple[str, ...]) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="envwright-")
    for name in names:
        (Path(folder.name) / name).symlink_to(Path(__file__).parents[1] / name)
    return folder


def linked_packages(*names: str) -> str:
    """Return the path of a folder with links to these packages alone, for a child under another interpreter:
    libraries of other versions may lie beside the packages."""
    return _links(names).name


def ended(status: int) -> str:
    """Return how a process ended, from its return code: `ended with exit code 3`, `was killed by SIGSEGV (it
    crashed in a library; ...)`."""
    if status >= 0:
        return f"ended with exit code {status}"
    name = next((each.name for each in signal.Signals if each == -status), f"signal {-status}")
    meaning = _MEANINGS.get(-status)
    return f"was killed by {name}" + (f" ({meaning})" if meaning else "")
