"""What every task is told about the run it works for."""

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engineer.gate import START, GateDecision
from envgen.frozen import Frozen
from infra.preset import Preset
from infra.runs.steps import read_record, stage_directory
from infra.settings import Settings
from policy.chat import Completion, Progress
from policy.checkpoints import model_identity, resolve_model
from policy.engine import EngineChatModel
from policy.engine_config import EngineConfig

log = logging.getLogger("envwright")
GATE = "gate.json"


class RunRef(Frozen):
    """A curriculum's directory and preset; small, so that tasks can pass it around."""

    directory: Path
    preset: Preset

    @property
    def name(self) -> str:
        """Name of the curriculum."""
        return self.directory.name

    @property
    def argument(self) -> str:
        """What a command is told to find it: the name, or the path of a run that lies elsewhere."""
        return self.name if self.directory.parent.resolve() == Settings().runs.resolve() else str(self.directory.resolve())

    @property
    def validation(self) -> Path:
        """The fixed validation set."""
        return self.directory / "validation.parquet"

    @property
    def start(self) -> Path:
        """Directory of the start policy's evaluation."""
        return self.directory / "start"

    def stage(self, number: int) -> Path:
        """Directory of a stage."""
        return stage_directory(self.directory, number)

    def policy(self, number: int) -> str:
        """The model that stage `number` made; the start policy for -1."""
        return resolve_model(self.preset.model) if number == START else str(self.stage(number) / "checkpoint")

    def evaluation(self, number: int) -> Path:
        """The directory with the evaluation of that model."""
        return self.start if number == START else self.stage(number)


class Parent(Frozen):
    """The policy that a stage starts from."""

    stage: int
    """The stage that made it; -1 is the start policy."""
    identity: str
    """What decides its weights: the digest of its checkpoint, or the key of the start policy's evaluation."""


def read_gate(run: RunRef, stage: int) -> GateDecision:
    """The decision after a finished stage."""
    return GateDecision.model_validate_json((run.stage(stage) / GATE).read_bytes())


def parent_stage(run: RunRef, stage: int) -> int:
    """The stage whose checkpoint a stage started from; -1 is the start policy."""
    return read_gate(run, stage - 1).in_force if stage else START


def policy_identity(run: RunRef, stage: int) -> str:
    """What decides the weights that a finished stage made; those of the start policy for -1."""
    record = None if stage == START else read_record(run.stage(stage), "train")
    return record.outputs["checkpoint"] if record else model_identity(run.policy(stage))


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


def reporting(words: str) -> Progress:
    """A callback that logs how many answers are there, every ten seconds at most; `words` have a place for the number."""
    throttle, told = Throttle(), 0

    def progress(new: Mapping[int, Completion]) -> None:
        nonlocal told
        told += len(new)
        if throttle.ready():
            log.info(words, told)

    return progress


_engine: EngineChatModel | None = None
_engine_lock = threading.Lock()


def engine(source: str, config: EngineConfig, log_path: Path) -> EngineChatModel:
    """The one running chat model of this process; another source replaces it, so a stage starts each engine once.

    Found by the path of its weights: whoever writes weights closes it first. ModelError if the backend is not installed.
    """
    global _engine
    with _engine_lock:
        if _engine is None or (_engine.source, _engine.config) != (source, config):
            if _engine is not None:
                _engine.close()
            _engine = EngineChatModel(source, config, log_path, Settings().vllm_python)
        return _engine


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
