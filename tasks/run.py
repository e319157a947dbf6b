"""What all tasks share: their log, their options and the one running chat model."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from envgen.environment import Environment
from infra.config.settings import without_password
from infra.formats import duration
from policy.chat.contract import ChatModel, Completion, Progress
from policy.chat.engine import Engine, start_engine
from policy.chat.engine_config import EngineConfig
from policy.checkpoints import is_simulated
from policy.simulated import SimulatedModel, read_policy

log = logging.getLogger("envwright")
T = TypeVar("T")
MOST_AT_A_TIME = 64


_BUGS = (AssertionError, AttributeError, LookupError, NameError, TypeError, ValidationError)
"""Raised by wrong code, not by a server, a store or a disk that is down."""


def lost(what: str, error: Exception) -> None:
    """Log that a view or a copy of a run could not be written, which is not worth a run; with the traceback
    where our own code is wrong."""
    reason = f"{type(error).__name__}: {without_password(error)}"
    log.warning("%s: %s", what, reason, exc_info=isinstance(error, _BUGS))


class Throttle:
    """Lets a message through at most every `seconds`."""

    def __init__(self, seconds: float = 10.0) -> None:
        self.seconds, self._last = seconds, time.monotonic()

    def ready(self) -> bool:
        """Whether enough time has passed; resets the clock if so."""
        if time.monotonic() - self._last < self.seconds:
            return False
        self._last = time.monotonic()
        return True


class Pace:
    """The time that like pieces of work still take, some at a time, from those that were done here.

    Where nobody knows how many are done at a time, None, it is not told."""

    def __init__(self, pieces: int, at_a_time: int | None = 1) -> None:
        self._pieces, self._at_a_time = pieces, at_a_time
        self._over, self._timed, self._seconds = 0, 0, 0.0

    def over(self, seconds: float | None) -> str:
        """Count a piece that is over, which took `seconds`; None if it failed, which says nothing of the
        others. `3 of 6, about 12 min left`."""
        self._over += 1
        if seconds is not None:
            self._timed, self._seconds = self._timed + 1, self._seconds + seconds
        left, text = self._pieces - self._over, f"{self._over} of {self._pieces}"
        if not (left and self._timed and self._at_a_time):
            return text
        return (
            f"{text}, about {duration(self._seconds / self._timed * left / min(left, self._at_a_time))} left"
        )


def run_each(
    todo: list[T],
    jobs: int | None,
    start: Callable[[T], None],
    ended: Callable[[T, BaseException | None, str], None],
    stop: Callable[[], None],
) -> None:
    """Run `start` for every child, `jobs` at a time, each in its own thread.

    `ended` is called in this thread, with the error and the progress ("2 of 6, about 12 min left"). An
    interruption calls `stop`, so that the threads end.
    """
    pace = Pace(len(todo), min(jobs, len(todo)) if jobs else None)

    def timed(child: T) -> float:
        begun = time.monotonic()
        start(child)
        return time.monotonic() - begun

    with ThreadPoolExecutor(max_workers=jobs or MOST_AT_A_TIME) as pool:
        # Each thread gets its own context, so that its log lines belong to this flow run.
        futures = {pool.submit(copy_context().run, timed, child): child for child in todo}
        try:
            for future in as_completed(futures):
                error = future.exception()
                ended(futures[future], error, pace.over(None if error else future.result()))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise


def reporting(words: str) -> Progress:
    """A callback that logs how many answers are there, every ten seconds at most; `words` have a place for
    the number."""
    throttle, answered = Throttle(), 0

    def progress(new: Mapping[int, Completion]) -> None:
        nonlocal answered
        answered += len(new)
        if throttle.ready():
            log.info(words, answered)

    return progress


_engine: Engine | None = None
_engine_lock = threading.Lock()


def engine(source: str, config: EngineConfig, log_path: Path) -> Engine:
    """The one running chat model of this process; another source replaces it, so a stage starts each engine
    once.

    Found by the path of its weights: whoever writes weights closes it first. ModelError if the backend is not
    installed."""
    global _engine
    with _engine_lock:
        if _engine is None or (_engine.source, _engine.config) != (source, config):
            if _engine is not None:
                _engine.close()
            _engine = start_engine(source, config, log_path)
        return _engine


def answering(
    source: str, task: Environment, instances: Sequence[Any], style: str, config: EngineConfig, log_path: Path
) -> ChatModel:
    """What answers these instances for a policy: the running chat model, or the simulated learner."""
    if not is_simulated(source):
        return engine(source, config, log_path)
    return SimulatedModel(read_policy(source, task.space), task, instances, style)


def close_engine() -> None:
    """End the running chat model, if any."""
    global _engine
    with _engine_lock:
        if _engine is not None:
            _engine.close()
            _engine = None


def task_options(name: str) -> dict[str, Any]:
    """Options that all tasks share: the stage directory decides what is done, never Prefect's cache."""
    from prefect.cache_policies import NO_CACHE

    return {"name": name, "cache_policy": NO_CACHE}
