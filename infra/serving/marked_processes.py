"""Processes that carry a mark in their environment, and so do all that they start, whatever their process
group and parent."""

import os
import secrets
import subprocess
import sys
import time

import psutil

from envgen.processes import own_modules_first

VARIABLE = "ENVWRIGHT_STARTED_BY"
_PATIENCE = 20.0


def new_mark() -> str:
    """A mark that no other process has given."""
    return f"{os.getpid()}-{secrets.token_hex(8)}"


def start_guard(mark: str, *prefect_toml: str) -> subprocess.Popen[bytes]:
    """A process that kills all that carries the mark once its standard input is closed: by this process, or
    because this process is gone, whatever became of it.

    It carries no mark itself. `prefect_toml`, a server and a file, is what it removes before.
    """
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    return subprocess.Popen(
        [sys.executable, "-m", "infra.serving.end_guard", mark, *prefect_toml],
        env={**environment, **own_modules_first()},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


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


def kill_marked(mark: str, patience: float = _PATIENCE) -> None:
    """Kill the processes that carry the mark, until none is left, for `patience` seconds at most."""
    deadline = time.monotonic() + patience
    while (left := marked(mark)) and time.monotonic() < deadline:
        for process in left:
            try:
                process.kill()
            except psutil.Error:
                continue
        psutil.wait_procs(left, timeout=1)
