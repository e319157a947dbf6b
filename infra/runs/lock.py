"""The lock of a run directory: one process works on it at a time, and others can see which.

The kernel frees the lock when its holder dies. Machines that share the runs folder need a file system with
working locks, such as NFS 4."""

import getpass
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from envgen.errors import RunDirectoryError
from envgen.files import sweep, write_json
from envgen.frozen import Frozen

_PROBED_SECONDS = 1.0
"""Seconds for which an attempt waits: a look by `holder` takes the lock for a moment."""
_OWN_FILES = ("*", ".steps/*", "start/**/*", "stage-*/**/*")
"""Where files of killed processes are removed: not in the runs of a comparison, which remove their own."""


class Owner(Frozen):
    """The process that works on a run directory."""

    pid: int
    host: str
    user: str

    def __str__(self) -> str:
        """Process, machine and user."""
        return f"process {self.pid} on {self.host}{f' of {self.user}' if self.user else ''}"


def _file(directory: Path, suffix: str) -> Path:
    """Return a file beside a run directory, in the folder of locks."""
    directory = directory.resolve()
    locks = directory.parent / ".locks"
    locks.mkdir(parents=True, exist_ok=True)
    return locks / f"{directory.name}.{suffix}"


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Be the only process that works on a run directory; RunDirectoryError names the process that does."""
    lock, owner = FileLock(_file(directory, "lock")), _file(directory, "owner.json")
    try:
        lock.acquire(timeout=_PROBED_SECONDS)
    except Timeout:
        who = _owner(directory) or "unknown"
        raise RunDirectoryError(
            f"{directory}: another process is working on this run ({who}); wait for it, or give this run"
            " another --name"
        ) from None
    except OSError as error:
        raise RunDirectoryError(f"{lock.lock_file}: cannot be locked ({error}); move it away") from None
    try:
        write_json(owner, Owner(pid=os.getpid(), host=socket.gethostname(), user=this_person()))
        for pattern in _OWN_FILES:
            sweep(directory, pattern)
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


def holder(directory: Path) -> Owner | None:
    """Return the process that works on a run directory; None if its lock is free."""
    if not (directory.resolve().parent / ".locks" / f"{directory.resolve().name}.lock").exists():
        return None
    try:
        with FileLock(_file(directory, "lock"), timeout=0):
            return None
    except Timeout:
        return _owner(directory) or Owner(pid=0, host="an unknown machine", user="")


def _owner(directory: Path) -> Owner | None:
    try:
        return Owner.model_validate_json(_file(directory, "owner.json").read_bytes())
    except (OSError, ValidationError):
        return None


def this_person() -> str:
    """Return the name of the user of this process; empty if it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
