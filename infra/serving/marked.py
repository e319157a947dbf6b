"""Processes that carry a mark in their environment, and so do all that they start, whatever their process
group and parent."""

import os
import time

import psutil

VARIABLE = "ENVWRIGHT_SERVED_BY"
_PATIENCE = 20.0


def marked(mark: str) -> list[psutil.Process]:
    """The processes of this user that carry the mark, without the calling one."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(VARIABLE) == mark:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def kill_marked(mark: str) -> None:
    """Kill the processes that carry the mark, until none is left."""
    deadline = time.monotonic() + _PATIENCE
    while (left := marked(mark)) and time.monotonic() < deadline:
        for process in left:
            try:
                process.kill()
            except psutil.Error:
                continue
        psutil.wait_procs(left, timeout=1)
