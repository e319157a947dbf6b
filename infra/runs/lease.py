"""Who works on a run directory: one process at a time, on this machine and on others that share the folder.

Two things guard a directory. A file lock, which the kernel frees when its holder dies, keeps out processes of
this machine. A lease, a small file that its holder renews, keeps out other machines, whose locks a shared
folder may not know; one that was not renewed for `STALE_SECONDS` is stale, and the next process takes it: it
waits so long where it cannot know whether the holder lives. Clocks of the machines have to agree to some
seconds."""

import fcntl
import getpass
import glob
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psutil
from pydantic import ValidationError

from envgen.errors import RunDirectoryError
from envgen.files import left_over, sweep, write_json
from envgen.frozen import Frozen

RENEW_SECONDS = 15.0
STALE_SECONDS = 120.0
LOOK_SECONDS = 2.0
_log = logging.getLogger("envwright.lease")


class Lease(Frozen):
    """Who holds a run directory."""

    token: str
    """Differs between any two leases."""
    host: str
    """Name of the machine, and which of its starts."""
    pid: int
    user: str
    taken_at: float
    """Seconds since 1970."""
    renewed_at: float

    @property
    def age(self) -> float:
        """Seconds since it was renewed."""
        return max(0.0, time.time() - self.renewed_at)

    def __str__(self) -> str:
        """Who, since when, and how fresh."""
        ahead = self.renewed_at - time.time()
        seen = (
            f"seen at a time {ahead:.0f} s ahead of the clock of this machine"
            if ahead > RENEW_SECONDS
            else f"last seen {self.age:.0f} s ago"
        )
        user = f" of {self.user}" if self.user else ""
        return f"process {self.pid} on {self.host}{user}, since {_date(self.taken_at)}, {seen}"


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Be the only process that writes a run directory; RunDirectoryError names the one that is at it. A dead
    holder holds nothing."""
    directory, path = directory.resolve(), _path(directory)
    locks, lock = path.parent, path.with_name(f"{directory.name}.lock")
    locks.mkdir(parents=True, exist_ok=True)
    for file in (path, lock):
        if file.exists() and not file.is_file():
            raise RunDirectoryError(f"{file}: is no file, so that the run cannot be held; move it away")
    with open(lock, "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunDirectoryError(_taken(directory, read_lease(path))) from None
        before = read_lease(path)
        # On this machine the lock has just shown that the holder is dead.
        if before and before.host != this_host():
            _wait_until_stale(directory, path, before)
        if before:
            _log.info("taking over the run directory from %s", before)
        _sweep_own(directory)
        sweep(locks, f".{glob.escape(path.name)}.*")
        with _held(path):
            yield


def _sweep_own(directory: Path) -> None:
    """Remove what killed processes left half-written below a directory, but for what others hold there: the
    curricula of a comparison, on whichever machine they run."""
    for path in left_over(directory):
        if not any(holder(parent) for parent in path.parents if directory in parent.parents):
            with suppress(OSError):
                path.unlink()


def _wait_until_stale(directory: Path, path: Path, before: Lease) -> None:
    """Wait until the lease of another machine is stale; RunDirectoryError if it is renewed meanwhile, so that
    its holder lives."""
    # By a clock that nobody sets: a lease may be dated in the future.
    until = time.monotonic() + STALE_SECONDS - before.age
    if before.age < STALE_SECONDS:
        _log.warning(
            "%s is leased by %s; if that process does not renew it, it is taken over in %.0f s",
            directory,
            before,
            STALE_SECONDS - before.age,
        )
    while time.monotonic() < until:
        time.sleep(min(LOOK_SECONDS, STALE_SECONDS))
        found = read_lease(path)
        if found is None:
            return
        if (found.token, found.renewed_at) != (before.token, before.renewed_at):
            raise RunDirectoryError(_taken(directory, found))


def read_lease(path: Path) -> Lease | None:
    """The lease in a file; None if there is none, or none that can be read."""
    try:
        return Lease.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _path(directory: Path) -> Path:
    directory = directory.resolve()
    return directory.parent / ".locks" / f"{directory.name}.lease.json"


def holder(directory: Path) -> Lease | None:
    """Who works on a run directory, as far as the lease tells without touching the lock; None if nobody."""
    found = read_lease(_path(directory))
    if found is None or found.age >= STALE_SECONDS:
        return None
    return found if found.host != this_host() or psutil.pid_exists(found.pid) else None


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Hold a lease: write it, renew it in a thread, and give it back."""
    now = time.time()
    mine = Lease(
        token=uuid4().hex, host=this_host(), pid=os.getpid(), user=this_person(), taken_at=now, renewed_at=now
    )
    write_json(path, mine)
    ended = threading.Event()
    renewer = threading.Thread(target=_renew, args=(path, mine, ended), name="lease", daemon=True)
    renewer.start()
    try:
        yield
    finally:
        ended.set()
        renewer.join()
        found = read_lease(path)
        if found and found.token == mine.token:
            path.unlink(missing_ok=True)


def _renew(path: Path, mine: Lease, ended: threading.Event) -> None:
    """Renew a lease until told to end. If another process has taken it, as after a long sleep of this
    machine, end this one."""
    while not ended.wait(RENEW_SECONDS):
        found = read_lease(path)
        if found and found.token != mine.token:
            _log.error(
                "the lease of this run was taken by %s; this process stops, complete steps are kept", found
            )
            os.kill(
                os.getpid(), signal.SIGTERM
            )  # not SIGINT, which shells let their background processes ignore
            return
        try:
            write_json(path, mine.model_copy(update={"renewed_at": time.time()}))
        except OSError as error:  # a full disk ends the run where it matters, not here
            _log.warning("the lease of this run could not be renewed: %s", error)


def _date(seconds: float) -> str:
    """A time as people write it, in this machine's time zone; the number itself if it is in no calendar."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s"


def _taken(directory: Path, lease: Lease | None) -> str:
    who = f" ({lease})" if lease else ""
    return (
        f"{directory}: another process is working on this run{who}; wait for it, or give this run another"
        " --name"
    )


def this_host() -> str:
    """The name of this machine, and which of its starts this is."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}".strip()


def this_person() -> str:
    """The name of who uses this machine; empty if it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
