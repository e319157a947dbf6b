"""The lock of a run directory: one process works on it at a time, and others can see which. The kernel frees
it when its holder dies. A runs folder of several machines needs a file system with locks, such as NFS 4."""

import getpass
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from envgen.errors import RunDirectoryError
from envgen.files import sweep, write_text

_OWN_FILES = ("*", ".steps/*", "start/**/*", "stage-*/**/*")
"""Where files of killed processes are removed: not in the runs of a comparison, which remove their own."""


def _files(directory: Path) -> tuple[FileLock, Path]:
    """Return the lock of a run directory and the file that names its holder; both lie beside it."""
    directory = directory.resolve()
    locks = directory.parent / ".locks"
    return FileLock(locks / f"{directory.name}.lock"), locks / f"{directory.name}.owner"


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Be the only process that works on a run directory; RunDirectoryError names the process that does."""
    lock, owner = _files(directory)
    try:
        lock.acquire(timeout=1)  # a look by `holder` takes the lock for a moment
    except Timeout:
        problem = f"another process is working on this run ({_owner(owner)})"
        remedy = "wait for it, or give this run another --name"
        raise RunDirectoryError(f"{directory}: {problem}; {remedy}") from None
    except OSError as error:
        raise RunDirectoryError(f"{lock.lock_file}: cannot be locked ({error}); move it away") from None
    try:
        write_text(owner, f"process {os.getpid()} on {socket.gethostname()} of {this_person()}")
        for pattern in _OWN_FILES:
            sweep(directory, pattern)
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


def holder(directory: Path) -> str:
    """Return which process works on a run directory; empty if its lock is free."""
    lock, owner = _files(directory)
    if not Path(lock.lock_file).exists():
        return ""
    try:
        with lock.acquire(timeout=0):
            return ""
    except Timeout:
        return _owner(owner)


def _owner(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return "an unknown process"


def this_person() -> str:
    """Return the name of the user of this process, or its number if it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
