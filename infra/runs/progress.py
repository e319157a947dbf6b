"""The progress of a run: its log, `logs/run.log`, and how long it still takes at its present pace."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from engineer.gate import BASE_POLICY
from envgen.terminal import printable
from infra.runs.files import RESULTS
from infra.runs.run import Run, RunRef
from infra.runs.steps import read_record

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
    """Append what envwright's log says meanwhile to the log of a run, with date and time."""
    path = run.log(NAME)
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = _RunLog(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S"))
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    try:
        yield
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


def seconds_left(run: RunRef, stage: int, after: str | None = None) -> float | None:
    """Seconds of the steps of a run from `stage` on, as long as they took on average in the stages before it;
    None where there is none. With `after`, a step of `stage`, only of what follows that step.

    On a tiny preset a stage took 4 to 6 % longer than its steps: publishing and recording are no steps."""
    stages = run.read(RESULTS).stages[:stage] if stage and run.has(RESULTS) else ()
    if not stages:
        return None
    whole = sum(sum(result.seconds.values()) for result in stages)
    rest = sum(_after(result.seconds, after) for result in stages)
    return (rest + whole * (run.preset.stages - stage - 1)) / len(stages)


def first_guess(run: RunRef, training: float) -> float | None:
    """Seconds that a run still takes after the training of its first stage, which itself takes `training`
    seconds: as if stages did nothing but train so long, and evaluate as long as the base policy took. None if
    that is not known."""
    start = read_record(run.folder(BASE_POLICY), "start")
    return start and start.seconds + (run.preset.stages - 1) * (training + start.seconds)


def _after(seconds: dict[str, float], step: str | None) -> float:
    """Seconds of the steps behind one, which stand in their order; of all for None."""
    names = list(seconds)
    return sum(list(seconds.values())[names.index(step) + 1 if step in names else 0 :])
