"""What all tasks share: their log, their options, the one running chat model, and how it is evaluated."""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect.cache_policies import NO_CACHE
from pydantic import ValidationError

from envgen.environment import Environment
from infra.config.settings import without_password
from policy.chat.answers import KeptAnswers
from policy.chat.contract import ChatModel, Completion, Sampling
from policy.chat.engine import Engine, start_engine
from policy.chat.engine_config import EngineConfig
from policy.checkpoints import is_simulated
from policy.evaluation import evaluate
from policy.rollouts import Rollout

log = logging.getLogger("envwright")
_BUGS = (AssertionError, AttributeError, LookupError, NameError, TypeError, ValidationError)
"""Raised by wrong code, not by a server, a store or a disk that is down."""


def lost(what: str, error: Exception) -> None:
    """Log that a view or a copy of a run could not be written, with the traceback of wrong code."""
    reason = f"{type(error).__name__}: {without_password(error)}"
    log.warning("%s: %s", what, reason, exc_info=isinstance(error, _BUGS))


class Throttle:
    """Lets a message through at most every ten seconds."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def ready(self) -> bool:
        """Whether enough time has passed; resets the clock if so."""
        if time.monotonic() - self._last < 10:
            return False
        self._last = time.monotonic()
        return True


_engine: Engine | None = None
_engine_lock = threading.Lock()


def engine(source: str, config: EngineConfig, log_path: Path, template_kwargs: Mapping[str, Any]) -> Engine:
    """The one running chat model of this process; another source replaces it, and who writes weights closes
    it first. ModelError if the backend is not installed."""
    global _engine
    with _engine_lock:
        wanted = source, config, template_kwargs
        if _engine is None or (_engine.source, _engine.config, _engine.template_kwargs) != wanted:
            if _engine is not None:
                _engine.close()
            _engine = start_engine(source, config, log_path, template_kwargs)
        return _engine


def close_engine() -> None:
    """End the running chat model, if any."""
    global _engine
    with _engine_lock:
        if _engine is not None:
            _engine.close()
            _engine = None


def answering(
    source: str,
    task: Environment,
    instances: Sequence[Any],
    style: str,
    config: EngineConfig,
    log_path: Path,
    template_kwargs: Mapping[str, Any],
) -> ChatModel:
    """What answers these instances for a policy: the running chat model, or the simulated learner."""
    if not is_simulated(source):
        return engine(source, config, log_path, template_kwargs)
    from policy.simulated import SimulatedModel, read_policy

    return SimulatedModel(read_policy(source, task.space), task, instances, style)


def rollouts_of(
    model: ChatModel,
    decides: Mapping[str, Any],
    partial: Path,
    environment: Environment,
    instances: Sequence[Any],
    style: str,
    sampling: Sampling,
) -> list[Rollout]:
    """Rollouts of a model on instances; the answers in the file `partial` are not asked for again. `decides`
    identifies the model and how it is run."""
    throttle, answered = Throttle(), 0

    def progress(new: Mapping[int, Completion]) -> None:
        nonlocal answered
        answered += len(new)
        if throttle.ready():
            log.info("%s: %d of %d answers", partial.parent.name, answered, len(instances))

    answers = KeptAnswers(model, partial, decides)
    return evaluate(answers, environment, instances, style, sampling, progress)


def task_options(name: str) -> dict[str, Any]:
    """Options that all tasks share: the stage directory decides what is done, never Prefect's cache."""
    return {"name": name, "cache_policy": NO_CACHE}
