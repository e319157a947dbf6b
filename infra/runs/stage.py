"""The files of a stage: the name of each, its type, its reader and its writer stand here, and nowhere else.

`stage.breakdown` is what `breakdown.json` holds, and `Stage.breakdown` is the file: it has the `name`, and
`stage.write(Stage.breakdown, value)` writes it. What is read is kept until the file changes; nobody changes
it. What a step recorded is read only as the step wrote it; RunDirectoryError for what is missing, damaged or
changed by hand."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, overload

from pydantic import ConfigDict

from engineer.gate import GateDecision
from engineer.proposal import Proposal
from envgen.breakdown import Breakdown
from envgen.config import EnvConfig
from envgen.dataset import read_dataset, write_dataset
from envgen.files import file_digest, read_model, write_json
from envgen.frozen import Frozen
from infra.runs.results import Decision
from infra.runs.steps import REDO, check_recorded
from policy.evaluation import Changes
from policy.grpo.train_log import read_train_log
from policy.grpo.train_spec import CHECKPOINT, TRAIN_LOG
from policy.rollouts import read_rollouts, write_rollouts

T = TypeVar("T")
_Writer = Callable[..., None]
RESUMED = "resumed"
"""Fact of the step `train` in a stage's manifest."""
_UNDECIDED = "delete it, and decide again with envwright approve or reject"


class File(Generic[T]):
    """A file of a `Directory`: of an instance it is what the file holds, of the class it is the file
    itself."""

    def __init__(
        self, name: str, read: Callable[[Path], T], write: _Writer = write_json, keep: int = 1000
    ) -> None:
        self.name, self.read, self.write = name, read, write
        self._kept: Callable[[Path], list[tuple[tuple[int, ...], T]]] = lru_cache(keep)(lambda _: [])

    def _read(self, path: Path) -> T:
        check_recorded(path)
        return self.read(path)

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...
    @overload
    def __get__(self, owner: "Directory", kind: type) -> T: ...
    def __get__(self, owner: "Directory | None", kind: type) -> "Self | T":
        return self if owner is None else self._newest(owner.path(self))

    def _newest(self, path: Path) -> T:
        """What the file holds now; earlier versions are not kept, as results grow with every stage."""
        state, kept = _state(path), self._kept(path)
        found = kept[0] if kept else None
        if found is None or found[0] != state:
            found = state, self._read(path)
            kept[:] = [found]
        return found[1]


def json_file(name: str, kind: type[T]) -> File[T]:
    """A JSON document of a type."""
    return File(name, lambda path: read_model(path, kind, f"{path}: is missing; {REDO}", REDO))


def _state(path: Path) -> tuple[int, ...]:
    """Differs once a file was written again; empty if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


@lru_cache(10_000)
def _digest(path: Path, state: tuple[int, ...]) -> str:
    return file_digest(path)


class Directory(Frozen):
    """A directory of known files."""

    model_config = ConfigDict(ignored_types=(File,))
    directory: Path

    def path(self, file: File[Any]) -> Path:
        """Where a file is, or will be."""
        return self.directory / file.name

    def has(self, file: File[Any]) -> bool:
        """Whether a file is there."""
        return self.path(file).exists()

    def digest(self, file: File[Any]) -> str:
        """SHA-256 of a file as it is now."""
        return _digest(self.path(file), _state(self.path(file)))

    def write(self, file: File[T], value: T, *more: Any) -> None:
        """Write a file atomically; a data set takes prompt style, origin and family, rollouts style and
        family."""
        file.write(self.path(file), value, *more)

    def log(self, name: str) -> Path:
        """The log of a process that worked for this directory."""
        return self.directory / "logs" / f"{name}.log"


class Evaluation(Directory):
    """A directory with the answers of one policy to a set of instances."""

    rollouts = File("rollouts.parquet", read_rollouts, write_rollouts, keep=8)
    breakdown = json_file("breakdown.json", Breakdown)

    @property
    def partial(self) -> Path:
        """The answers of an evaluation that was cut off."""
        return self.directory / "rollouts.partial.jsonl"


class Stage(Evaluation):
    """The directory of a stage: what it trained on, what came of it, and what it proposed for the stage after
    it."""

    config = json_file("config.json", EnvConfig)
    train = File("train.parquet", read_dataset, write_dataset, keep=1)
    train_log = File(TRAIN_LOG, read_train_log)
    changes = json_file("changes.json", Changes)
    gate = json_file("gate.json", GateDecision)
    proposal = json_file("proposal.json", Proposal)
    state = json_file("engineer_state.json", dict[str, Any])
    decided = File(
        "decision.json", lambda path: read_model(path, Decision, f"{path}: is missing", _UNDECIDED)
    )
    manifest = json_file("manifest.json", dict[str, Any])

    @property
    def checkpoint(self) -> Path:
        """The weights that the stage made."""
        return self.directory / CHECKPOINT

    @property
    def work(self) -> Path:
        """What is needed until a step is done, as the checkpoints of the trainer."""
        return self.directory / "work"

    @property
    def resumed(self) -> tuple[int, ...]:
        """Optimizer steps after which the training was resumed, by the manifest."""
        return tuple(self.manifest.get(RESUMED, ()))

    @property
    def decision(self) -> Decision | None:
        """What a person decided on the proposal that is there now; None if nobody has. RunDirectoryError if
        damaged."""
        known = self.has(Stage.decided) and self.has(Stage.proposal)
        return self.decided if known and self.decided.proposal == self.digest(Stage.proposal) else None
