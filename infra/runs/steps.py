"""The stage directory as a content-keyed store: a step is done if and only if its record matches its files.
A step's key is a digest of all that decides its output, with a code version set by hand; its record is
written last, so that a step that was cut off is not done."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envgen.errors import RunDirectoryError
from envgen.files import digest, file_digest, write_json
from envgen.frozen import Frozen
from policy.checkpoints import model_identity

CODE_VERSIONS = {
    "validation": 2,
    "test-set": 1,
    "start": 6,
    "generate": 2,
    "train": 8,
    "evaluate": 5,
    "test": 2,
    "summarize": 6,
    "gate": 2,
    "engineer": 6,
    "benchmark": 1,
    "profile": 1,
}
"""Raised by hand when a step's code changes what it writes."""
REDO = "run the same command again to make it anew"
"""The remedy for what is missing or damaged of a run."""
RECORDS = ".steps"
"""Folder of the records, in the directory that the steps write to."""


class Stored(Frozen):
    """Data or weights as a step left them, for the next step to read."""

    path: Path
    """A file, the folder of a checkpoint, or the hub id of a model."""
    sha256: str


class StepRecord(Frozen):
    """What a finished step wrote."""

    step: str
    key: str
    outputs: dict[str, str]
    """File or directory name in the stage directory -> SHA-256."""
    seconds: float
    facts: dict[str, Any] = {}
    """What the manifest of the stage says beside that, by name."""
    reused: bool = False
    """Whether this call found it finished; never true in a stored record."""


def step_key(step: str, decides: dict[str, Any]) -> str:
    """The content key of a step: `decides` holds all that decides its output."""
    return digest({"step": step, "code": CODE_VERSIONS[step], **decides})


def run_step(
    directory: Path,
    step: str,
    decides: dict[str, Any],
    outputs: tuple[str, ...],
    body: Callable[[], dict[str, Any] | None],
    unfinished: str | None = None,
) -> StepRecord:
    """Run `body`, which writes `outputs` into `directory` and may return facts for the record, unless a
    record with the same key matches the files there. `unfinished`: the file or folder in which `body` keeps
    its work until the record is written. The caller has the lock of the run directory, see `exclusive`."""
    key = step_key(step, decides)
    record_path = directory / RECORDS / f"{step}.json"
    record = read_record(directory, step)
    if record and record.key == key and matches(record.outputs, directory):
        record = record.model_copy(update={"reused": True})
    else:
        record_path.unlink(missing_ok=True)
        started = time.monotonic()
        facts = body() or {}
        digests = {name: file_digest(directory / name) for name in outputs}
        seconds = round(time.monotonic() - started, 3)
        record = StepRecord(step=step, key=key, outputs=digests, seconds=seconds, facts=facts)
        write_json(record_path, record)
    if unfinished is not None:
        shutil.rmtree(directory / unfinished, ignore_errors=True)
        (directory / unfinished).unlink(missing_ok=True)
    return record


def read_record(directory: Path, step: str) -> StepRecord | None:
    """The record that a step left in a directory, whether or not its files are still the same."""
    try:
        return StepRecord.model_validate_json((directory / RECORDS / f"{step}.json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def check_recorded(path: Path) -> None:
    """RunDirectoryError for a file or folder that is not as a step beside it recorded it; a missing one, or
    one without a record, passes."""
    for file in (path.parent / RECORDS).glob("*.json"):
        record = read_record(path.parent, file.stem)
        sha = record.outputs.get(path.name) if record else None
        if sha and path.exists() and file_digest(path) != sha:
            problem = f"is not what the step {file.stem} wrote (by SHA-256): damaged, or changed by hand"
            raise RunDirectoryError(f"{path}: {problem}; {REDO}")


def policy_identity(source: str) -> str:
    """Digest of a checkpoint directory; a hub id stands for itself. RunDirectoryError as `check_recorded`."""
    check_recorded(Path(source))
    return model_identity(source)


def read_records(directory: Path) -> list[StepRecord]:
    """The records of the steps of a directory, in the order of the steps."""
    return [record for step in CODE_VERSIONS if (record := read_record(directory, step))]


def recorded_files(directory: Path) -> dict[str, str]:
    """Return the files that steps recorded in a directory, with their SHA-256."""
    return {name: sha for record in read_records(directory) for name, sha in record.outputs.items()}


def intact(directory: Path, without: str = "") -> bool:
    """Whether all files that steps recorded in a directory, but one, are as they wrote them."""
    files = recorded_files(directory)
    return matches({name: sha for name, sha in files.items() if name != without}, directory)


def matches(outputs: dict[str, str], directory: Path) -> bool:
    """Whether the files of a directory have these SHA-256 digests."""
    return all(
        (directory / name).exists() and file_digest(directory / name) == sha for name, sha in outputs.items()
    )
