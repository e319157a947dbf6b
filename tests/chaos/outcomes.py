"""What a run directory holds, to compare two runs, and what came of killing one."""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from injection import Fault, Operation

from envgen.files import digest, file_digest
from infra.runs.run import Run
from infra.runs.steps import RECORDS, matches, read_record
from policy.grpo.canary import CANARY
from policy.grpo.train_log import read_train_log
from policy.grpo.train_spec import CHECKPOINT, TRAIN_LOG

RUN, TRAINING, LINKED, READ_ONLY = "a run", "training", "a run behind a link", "a run that was made read-only"
MEASURED = {"seconds", "start_seconds", "finished", "code", "machine"}
"""Fields of the results that tell of the machine and the time."""

_TRAINED = (CHECKPOINT, CANARY)


class State(NamedTuple):
    """What a run holds."""

    files: frozenset[str]
    outputs: dict[str, tuple[str, tuple[tuple[str, str], ...]]]
    """Finished step -> its key, and the digests of what it wrote; without what training wrote."""
    rest: dict[str, Any]
    """Results, training steps, and rows that MLflow has."""
    weights: str
    """Digest of all checkpoints and canaries; the training log holds times."""

    def lacks(self, whole: "State") -> list[str]:
        """Files and finished steps of another run that this one has not."""
        return [
            f"no {name}"
            for name in sorted((whole.files - self.files) | (whole.outputs.keys() - self.outputs.keys()))
        ]

    def differs(self, whole: "State") -> list[str]:
        """Where it holds something else, or more, than another run."""
        found = [f"left {name}" for name in sorted(self.files - whole.files)]
        for mine, other in ((self.outputs, whole.outputs), (self.rest, whole.rest)):
            found += [f"other {name}" for name in mine.keys() & other.keys() if mine[name] != other[name]]
        return found


class Cell(NamedTuple):
    """Where a run is killed."""

    part: str
    operation: Operation
    fault: Fault


class Outcome(NamedTuple):
    """What came of a cell."""

    cell: Cell
    killed: bool = False
    resumed: bool = False
    equal: bool = False
    same_weights: bool = False
    lost: int = 0
    repeated: int = 0
    said: str = ""

    @property
    def good(self) -> bool:
        """Whether it is as if nobody had killed the run; other weights are counted apart."""
        return self.killed and self.resumed and self.equal and not (self.lost or self.repeated)


def state(run: Path) -> State:
    """What a run holds; a step counts if its files are as it recorded them."""
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    outputs = {}
    for name, (record, _) in _records(run).items():
        known = {file: sha for file, sha in record.outputs.items() if file not in {TRAIN_LOG, *_TRAINED}}
        outputs[name] = record.key, tuple(sorted(known.items()))
    rest: dict[str, Any] = {"rows of MLflow": _rows(run.parent / "mlflow.db")}
    if (run / Run.results.name).exists():
        rest["results"] = digest(steady(json.loads((run / Run.results.name).read_text())))
    for log in run.glob(f"*/{TRAIN_LOG}"):
        rest[f"steps of {log.parent.name}"] = read_train_log(log)["step"]
    weights = [file_digest(path) for name in _TRAINED for path in sorted(run.glob(f"*/{name}"))]
    return State(frozenset(files), outputs, rest, digest(weights))


def done(run: Path) -> dict[str, int]:
    """Finished step -> when it was recorded."""
    return {name: when for name, (_, when) in _records(run).items()}


def repeated(run: Path, before: dict[str, int]) -> list[str]:
    """The steps that were done before, and were done again since."""
    after = done(run)
    return [f"repeated {name}" for name, when in before.items() if after.get(name) != when]


def _records(run: Path) -> dict[str, Any]:
    found = {}
    for path in sorted(run.glob(f"**/{RECORDS}/*.json")):
        directory = path.parent.parent
        record = read_record(directory, path.stem)
        if record and matches(record.outputs, directory):
            found[f"{path.relative_to(run)}"] = record, path.stat().st_mtime_ns
    return found


def steady(value: Any) -> Any:
    """JSON without what was measured."""
    if isinstance(value, dict):
        return {name: steady(one) for name, one in value.items() if name not in MEASURED}
    return [steady(one) for one in value] if isinstance(value, list) else value


def _rows(store: Path) -> dict[str, int]:
    if not store.exists():
        return {}
    with sqlite3.connect(store) as database:
        tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        return {name: database.execute(f'select count(*) from "{name}"').fetchone()[0] for name in tables}


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes by part and kind of operation, in Markdown."""
    lines = [
        "| killed at | operation | cells | killed | resumed | equal | lost | repeated |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    rows: dict[tuple[str, str], list[Outcome]] = {}
    for one in outcomes:
        rows.setdefault((one.cell.part, one.cell.operation.kind), []).append(one)
    rows["all", ""] = list(outcomes)
    for (part, kind), of in rows.items():
        sums = [len(of), *(sum(getattr(one, name) for one in of) for name in Outcome._fields[1:4])]
        sums += [sum(getattr(one, name) for one in of) for name in ("lost", "repeated")]
        lines.append(f"| {part} | {kind} | " + " | ".join(f"{number:,}" for number in sums) + " |")
    trained = [one for one in outcomes if one.cell.part == TRAINING]
    same = sum(one.same_weights for one in trained)
    if trained:
        lines += [
            "",
            f"{same} of {len(trained)} trainings that were killed and resumed end in the same weights.",
        ]
    return "\n".join(lines)
