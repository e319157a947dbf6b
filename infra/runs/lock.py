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

from envgen.errors import RunDirectoryError
from envgen.files import sweep, write_text

_PROBED_SECONDS = 1.0
"""Seconds for which an attempt waits: a look by `holder` takes the lock for a moment."""
_OWN_FILES = ("*", ".steps/*", "start/**/*", "stage-*/**/*")
"""Where files of killed processes are removed: not in the runs of a comparison, which remove their own."""


def _files(directory: Path) -> tuple[Path, Path]:
    """Return the lock of a run directory and the file that names its holder; both lie beside it."""
    directory = directory.resolve()
    locks = directory.parent / ".locks"
    return locks / f"{directory.name}.lock", locks / f"{directory.name}.owner"


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Be the only process that works on a run directory; RunDirectoryError names the process that does."""
    path, owner = _files(directory)
    lock = FileLock(path, timeout=_PROBED_SECONDS)
    try:
        lock.acquire()
    except Timeout:
        raise RunDirectoryError(
            f"{directory}: another process is working on this run ({_owner(owner)}); wait for it, or give"
            " this run another --name"
        ) from None
    except OSError as error:
        raise RunDirectoryError(f"{path}: cannot be locked ({error}); move it away") from None
    try:
        user = f" of {name}" if (name := this_person()) else ""
        write_text(owner, f"process {os.getpid()} on {socket.gethostname()}{user}")
        for pattern in _OWN_FILES:
            sweep(directory, pattern)
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


def holder(directory: Path) -> str:
    """Return which process works on a run directory; empty if its lock is free."""
    path, owner = _files(directory)
    if not path.exists():
        return ""
    try:
        with FileLock(path, timeout=0):
            return ""
    except Timeout:
        return _owner(owner)


def _owner(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return "an unknown process"


def this_person() -> str:
    """Return the name of the user of this process; empty if it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
