"""How a command ends when it is told to: by Ctrl-C, by SIGTERM, or because its terminal was closed.

It says one line, unwinds, so that what it holds is given back and servers are told, and is gone within
`LIMIT` seconds with all that it started, whatever it was doing. Its exit code is that of a process which the
signal killed: 130, 143 or 129. After a `kill -9` a guard, a small process of its own, ends what is left.
"""

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import RawIOBase
from types import FrameType, SimpleNamespace

from envgen.terminal import printable

LIMIT = 9.0
"""Seconds from a signal to the end of this process."""
_GRACE = 7.0
_WORDS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP, the terminal is gone"}


class Stopped(BaseException):
    """A signal asked this process to end. No Exception: nothing that handles errors may handle it."""


class _Stop:
    """What one process does when it is told to end."""

    def __init__(self) -> None:
        self.number: int | None = None
        """The signal that came first."""
        self.mark: str | None = None
        """Of the processes that are killed at the end."""
        self.quiet = False
        """Whether nothing is printed after the one line: libraries are loud when they are interrupted."""
        self.raises = True
        """Whether a signal raises `Stopped`; otherwise it only sets `asked`."""
        self.asked = threading.Event()
        self._raised = False

    def handle(self, number: int, _: FrameType | None) -> None:
        """The handler of the signals, in the main thread."""
        self.number = self.number or number
        # Only once: a second one would cut off what the first one made the process clean up.
        if self.raises and not self._raised:
            self._raised = True
            self.asked.wait(1)  # the line comes before whatever the end prints
            raise Stopped

    def watch(self, pipe: int) -> None:
        """Wait for the first signal in a thread, say so, and end the process if it does not end itself.

        The C library's handler writes its number to the pipe at once, even if the main thread is deep in a
        library, or a library has put its own handler in place.
        """
        with open(pipe, "rb", buffering=0) as signals:
            first = _next(signals)
            if first is None:
                return
            self.number = self.number or first
            self._tell()
            self.asked.set()
            patience = threading.Timer(_GRACE, self.end)
            patience.daemon = True
            patience.start()
            # Whoever presses Ctrl-C twice does not want to wait.
            while following := _next(signals):
                if first == following == signal.SIGINT:
                    self.end()

    def end(self) -> None:
        """End this process now, and all that it started."""
        if self.mark:
            from infra.serving.marked_processes import kill_marked

            kill_marked(self.mark, LIMIT - _GRACE)
        if not self.quiet:
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()
        os._exit(128 + (self.number or signal.SIGTERM))

    def _tell(self) -> None:
        line = f"stopping ({_WORDS[signal.Signals(self.number or signal.SIGTERM)]})"
        if self.mark:
            command = shlex.join(["envwright", *sys.argv[1:]])
            line += f"; complete steps are kept, the same command goes on: {printable(command)}"
        with suppress(OSError):  # of a terminal that is gone
            os.write(2, f"{line}\n".encode())
        if self.quiet:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(nowhere, stream)


def _next(signals: RawIOBase) -> int | None:
    """The next signal that asks for the end; None once the pipe is closed. Every signal that has a handler in
    Python writes to it."""
    while number := signals.read(1):
        if number[0] in _WORDS:
            return number[0]
    return None


_current: _Stop | None = None
_guard: tuple[str, subprocess.Popen[bytes]] | None = None
"""Mark and process of the guard; it lives as long as this process."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Until its end a signal that asks this process to end raises `Stopped` in the main thread, and the
    process ends as this module says. A signal that is ignored, as under nohup, stays so."""
    global _current
    before, stop = _current, _Stop()
    read, write = os.pipe()
    os.set_blocking(write, False)
    handlers = {
        number: signal.signal(number, stop.handle)
        for number in _WORDS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=stop.watch, args=(read,), name="signals", daemon=True).start()
    _current = stop
    try:
        yield
    finally:
        if stop.number:
            stop.end()
        _current = before
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(write)


def guard_children() -> None:
    """Let all processes that are started from here on end with this one, however it ends; inside
    `stoppable`, and before anything is started. Elsewhere, as in a worker of Prefect, nothing happens."""
    global _guard
    if _current is None:
        return
    from infra.serving.marked_processes import VARIABLE, new_mark, start_guard

    if _guard is None:
        mark = new_mark()
        _guard = mark, start_guard(mark)
        os.environ[VARIABLE] = mark
    _current.mark, _current.quiet = _guard[0], True
    _part_temporary_server()


def _part_temporary_server() -> None:
    """Give the server that Prefect starts where none is configured a process group of its own: a Ctrl-C in
    the terminal would end it before the run has told it that it stops, and Prefect would wait for it."""
    from prefect.settings import PREFECT_API_URL

    if not PREFECT_API_URL.value():
        from prefect.server.api import server

        apart = {"Popen": partial(subprocess.Popen, process_group=0)}
        server.subprocess = SimpleNamespace(**{**vars(subprocess), **apart})  # type: ignore[assignment]


@contextmanager
def awaited(mark: str) -> Iterator[Callable[[float], bool]]:
    """Inside `stoppable`: until its end a signal raises nothing, it only sets what the yielded function waits
    for, so many seconds. What carries the mark is killed if the process does not end by itself."""
    assert _current is not None, "call inside stoppable()"
    _current.raises, _current.mark = False, mark
    yield _current.asked.wait
