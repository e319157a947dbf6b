"""The files of a run directory: the name, type, reader and writer of each. `run.read(BREAKDOWN, 0)` returns
what `stage-00/breakdown.json` holds."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from engineer.contract import Proposal
from engineer.gate import GateDecision
from envgen.breakdown import Breakdown
from envgen.config import EnvConfig
from envgen.dataset import read_dataset, write_dataset
from envgen.estimates import Difference
from envgen.files import read_model, read_text, write_html, write_json
from envgen.frozen import Frozen
from infra.config.preset import Preset
from infra.results import CurriculumResults, Decision
from infra.runs.steps import REDO, check_recorded
from policy.grpo.train_log import read_train_log
from policy.grpo.train_spec import TRAIN_LOG
from policy.rollouts import read_rollouts, write_rollouts

T = TypeVar("T")


class File(Generic[T]):
    """A file of a run or stage. What was read stays in memory; treat it as read-only."""

    def __init__(
        self,
        name: str,
        load: Callable[[Path], T],
        write: Callable[..., None] = write_json,
        keep: int = 200,
        stored: bool = False,
    ) -> None:
        """`stored`: too large to be handed from step to step; its place and digest are."""
        self.name, self.write, self.stored = name, write, stored

        @lru_cache(keep)
        def read(path: Path, state: tuple[int, ...]) -> T:
            check_recorded(path)
            return load(path)

        self._read = read

    def read(self, path: Path) -> T:
        """Return what the file holds now; RunDirectoryError if it is missing or damaged."""
        return self._read(path, file_state(path))


def file_state(path: Path) -> tuple[int, ...]:
    """Return a value that changes when a file is written again; empty if the file is missing."""
    try:
        state = path.stat()
    except OSError:
        return ()
    return state.st_mtime_ns, state.st_size, state.st_ino


def _json_file(name: str, kind: type[T], missing: str = f"is missing; {REDO}", remedy: str = REDO) -> File[T]:
    """Return a JSON document of a type."""
    return File(name, lambda path: read_model(path, kind, f"{path}: {missing}", remedy))


class Curriculum(Frozen):
    """A named run of a preset."""

    name: str
    preset: Preset
    commit: str = ""
    """Of a base policy from the hub, fixed when the run begins; empty for a folder."""


_NO_RUN = (
    "is missing: no stage has finished yet, or this is no run; give its name, or its path with a / in it"
)
COMPARISON = "comparison.json"
"""In the folder of a comparison: what it compares."""
# Of a run.
CURRICULUM = _json_file("curriculum.json", Curriculum, _NO_RUN, "move the directory away")
RESULTS = _json_file("results.json", CurriculumResults, _NO_RUN)
REPORT = File("report.html", read_text, write_html)
VALIDATION = File("validation.parquet", read_dataset, write_dataset, keep=2, stored=True)
TEST = File("test.parquet", read_dataset, write_dataset, keep=2, stored=True)

# Of a stage, and of the evaluation of the base policy.
ROLLOUTS = File("rollouts.parquet", read_rollouts, write_rollouts, keep=8, stored=True)
BREAKDOWN = _json_file("breakdown.json", Breakdown)
PARTIAL_ROLLOUTS = "rollouts.partial.jsonl"
"""Answers of an evaluation that was cut off."""
TEST_ROLLOUTS = File("test_rollouts.parquet", read_rollouts, write_rollouts, keep=8, stored=True)
PARTIAL_TEST_ROLLOUTS = "test_rollouts.partial.jsonl"

# Of a stage.
CONFIG = _json_file("config.json", EnvConfig)
TRAIN_DATA = File("train.parquet", read_dataset, write_dataset, keep=1, stored=True)
TRAINING_LOG = File(TRAIN_LOG, read_train_log)
CHANGES = _json_file("changes.json", dict[str, Difference])
GATE = _json_file("gate.json", GateDecision)
PROPOSAL = _json_file("proposal.json", Proposal)
ENGINEER_STATE = _json_file("engineer_state.json", dict[str, Any])
_DECIDE = "delete it, and decide again with envwright approve or reject"
DECISION = _json_file("decision.json", Decision, "is missing", _DECIDE)
MANIFEST = _json_file("manifest.json", dict[str, Any])
"""Written last: with it, and only with it, a stage is complete."""
WORK = "work"
"""Folder of what a stage needs until it is complete, as the trainer's checkpoints."""
RESUMED = "resumed"
"""Fact of the step `train` in the manifest: optimizer steps after which training was resumed."""
