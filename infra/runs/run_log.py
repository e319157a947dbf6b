"""What a run says while it works, kept in its directory: `logs/run.log`."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from envgen.terminal import printable
from infra.runs.stage import Directory

NAME = "run"
_log = logging.getLogger("envwright")


class _Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line a record, whatever a model wrote into it."""
        return printable(super().format(record))


class _Kept(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """A line that a full disk does not take is not worth a run."""


@contextmanager
def kept_log(run: Directory) -> Iterator[None]:
    """Append what envwright's log says meanwhile to the log of a run, with date and time."""
    path = run.log(NAME)
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = _Kept(path, encoding="utf-8")
    handler.setFormatter(_Line("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S"))
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.removeHandler(handler)
        handler.close()
