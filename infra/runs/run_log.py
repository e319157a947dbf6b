"""The log of a run: `logs/run.log`."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from envgen.terminal import printable
from infra.runs.run import Run

NAME = "run"
_log = logging.getLogger("envwright")


class _RunLog(logging.FileHandler):
    def format(self, record: logging.LogRecord) -> str:
        """Return one line a record, whatever a model wrote into it."""
        return printable(super().format(record))

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore a line that a full disk does not take."""


@contextmanager
def kept_log(run: Run) -> Iterator[None]:
    """Append what envwright's log says meanwhile to the log of a run, with date and time, and the first line
    of an error that ends it."""
    path = run.log(NAME)
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = _RunLog(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S"))
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    try:
        yield
    except Exception as error:
        lines = str(error).splitlines() or [type(error).__name__]
        handler.handle(logging.makeLogRecord({"levelno": logging.ERROR, "msg": f"stopped: {lines[0]}"}))
        raise
    finally:
        _log.removeHandler(handler)
        handler.close()


def new_lines(run: Run, start: int) -> tuple[list[str], int]:
    """Return the complete lines of a run's log from a byte on, and the byte after them."""
    try:
        with open(run.log(NAME), "rb") as file:
            file.seek(start)
            text = file.read()
    except FileNotFoundError:
        return [], 0
    end = text.rfind(b"\n") + 1
    return text[:end].decode("utf-8", "replace").splitlines(), start + end
