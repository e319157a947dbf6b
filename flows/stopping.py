"""How a command ends on Ctrl-C, SIGTERM or SIGHUP: one line, then it unwinds, within `LIMIT` seconds."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

LIMIT = 9.0
_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}


class Stopped(BaseException):
    """A signal asked this process to end. Not an Exception, so that nothing handles it as an error."""


def run_stoppable(command: Callable[[], None]) -> None:
    """Run a command in which the first signal raises `Stopped`; the exit code is then 128 + signal. A second
    Ctrl-C ends the process at once. A signal that is ignored, as under nohup, stays ignored."""
    code = 0

    def stop(number: int, _: object) -> None:
        nonlocal code
        code = 128 + number
        for each in _NAMES:
            signal.signal(each, signal.SIG_IGN)
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))
        line = f"stopping ({_NAMES[signal.Signals(number)]}); complete steps are kept\n"
        with suppress(OSError):  # the terminal may be gone
            os.write(2, line.encode())
        for stream in (1, 2):  # libraries are loud when they are interrupted
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        deadline = threading.Timer(LIMIT, os._exit, [code])
        deadline.daemon = True
        deadline.start()
        raise Stopped

    for number in _NAMES:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        command()
    except Exception as error:
        # Prefect raises this on SIGTERM, and a step that begins turns it into another error.
        if not code and any(type(each).__name__ == "TerminationSignal" for each in _chain(error)):
            stop(signal.SIGTERM, None)
        raise
    finally:
        if code:
            os._exit(code)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those during whose handling it was raised."""
    while error:
        yield error
        error = error.__context__
