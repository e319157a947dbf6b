"""File operations of a process, counted, and the process killed before or after the n-th of them."""

import json
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from envgen.processes import die_with_parent

PATIENCE = 300
"""Seconds until a process that does not end is ended by SIGALRM, which counts as one that failed."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_VARIES = re.compile(r"[0-9a-f]{12,}|\.\d+(?=\.partial)|(?<=uploading\.)\w+")
"""In names: what MLflow draws, and numbers of processes."""


class Operation(NamedTuple):
    """What is done to a file below the folder of runs."""

    kind: str
    path: str
    """Below the folder, without what differs between two runs."""


class Fault(NamedTuple):
    """Where a process is killed: before its n-th operation, or when that is done."""

    number: int
    after: bool


def operations(folder: Path, tell: Callable[[Operation, Callable[[], Any]], None]) -> None:
    """From here on, tell of every operation of this process's main thread on a file below the folder, before
    it is done, with a function that does it. There is no way back: for a process of its own."""
    root, busy = str(folder.resolve()) + os.sep, False

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal busy
        if busy or event not in _KINDS or threading.current_thread() is not threading.main_thread():
            return
        busy = True  # what is done here is audited too
        try:
            found = _KINDS[event](*arguments)
            if found is None:
                return
            kind, path, do = found
            path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            if path.startswith(root):
                tell(Operation(kind, _VARIES.sub("*", path.removeprefix(root))), do)
        finally:
            busy = False

    sys.addaudithook(audit)


def killed(folder: Path, fault: Fault, told: Path) -> None:
    """Kill this process by SIGKILL at a fault; the operation is then found in the file `told`."""
    number = 0

    def tell(operation: Operation, do: Callable[[], Any]) -> None:
        nonlocal number
        number += 1
        if number == fault.number:
            told.write_text(json.dumps(operation))
            if fault.after:
                do()
            os.kill(os.getpid(), signal.SIGKILL)

    operations(folder, tell)


def recorded(folder: Path, told: Path) -> None:
    """Write the operations of this process, a line each, to the file `told`."""
    out = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)  # until the process ends
    operations(folder, lambda operation, _: os.write(out, json.dumps(operation).encode() + b"\n"))


def forked(body: Callable[[], Any], errors: Path, patience: int = PATIENCE) -> int:
    """Run a function in a fork of this process to its end; its exit status, negative for a signal. What it
    raises, and prints, is found in `errors`."""
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        status = 1
        with open(errors, "a") as out:
            try:
                die_with_parent(parent)
                signal.alarm(patience)
                os.dup2(out.fileno(), 1)
                os.dup2(out.fileno(), 2)
                sys.stdout = sys.stderr = out  # pytest has put something else there
                body()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                out.flush()
                os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


_Found = tuple[str, str, Callable[[], Any]] | None
"""Kind, path, and a function that does it; None if nothing is changed."""


def _path(path: Any, directory: int = -1) -> str:
    text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else f"/proc/self/fd/{path}"
    return text if directory == -1 else os.path.join(os.readlink(f"/proc/self/fd/{directory}"), text)


def _open(path: Any, mode: str | None, flags: int) -> _Found:
    if isinstance(path, int) or not flags & _WRITES:
        return None
    return "open to write", os.path.abspath(_path(path)), lambda: os.open(path, flags, 0o666)


def _rename(source: Any, target: Any, source_in: int, target_in: int) -> _Found:
    one, other = _path(source, source_in), _path(target, target_in)
    return "rename", os.path.abspath(other), lambda: os.replace(one, other)


def _removing(kind: str, do: Callable[[str], None]) -> Callable[..., _Found]:
    def found(path: Any, directory: int = -1) -> _Found:
        full = os.path.abspath(_path(path, directory))
        return (kind, full, lambda: do(full)) if os.path.lexists(full) else None

    return found


def _mkdir(path: Any, mode: int, directory: int) -> _Found:
    full = os.path.abspath(_path(path, directory))
    return None if os.path.lexists(full) else ("make a folder", full, lambda: os.mkdir(full, mode))


def _link(source: Any, target: Any, *directories: int) -> _Found:
    full = os.path.abspath(_path(target))
    return "link", full, lambda: os.link(_path(source), full)


def _symlink(source: Any, target: Any, directory: int) -> _Found:
    full = os.path.abspath(_path(target, directory))
    return "link", full, lambda: os.symlink(source, full)


def _truncate(path: Any, length: int) -> _Found:
    full = os.path.realpath(_path(path))
    return "truncate", full, lambda: os.truncate(full, length)


_KINDS: dict[str, Callable[..., _Found]] = {
    "open": _open,
    "os.rename": _rename,
    "os.remove": _removing("remove", os.unlink),
    "os.rmdir": _removing("remove a folder", os.rmdir),
    "os.mkdir": _mkdir,
    "os.link": _link,
    "os.symlink": _symlink,
    "os.truncate": _truncate,
}
"""Audit event -> what it does."""
