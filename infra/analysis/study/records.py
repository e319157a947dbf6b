"""What a study keeps: every answer of its policies, and what its curricula did.

All its tables and figures follow from that.

test.parquet, validation.parquet    instances with their optimal solutions, a data set each
round-N/answers.parquet             completions, a row for each policy and instance
round-N/curricula.json              results of every curriculum: configs, proposals, pilots, tokens, seconds
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import model_validator

from envgen.dataset import family_of, read_dataset, read_table, write_table
from envgen.errors import DataError
from envgen.family import TaskFamily
from envgen.files import read_model, write_json
from envgen.frozen import Frozen
from infra.analysis.spec import Stage0, shared_policy
from infra.runs.results import CurriculumResults

SetName = Literal["test", "validation"]
SETS: tuple[SetName, ...] = ("test", "validation")
ANSWERS, CURRICULA = "answers.parquet", "curricula.json"
_COLUMNS = (
    ("policy", pa.string(), {"doc": "shared, shared-sSEED or ARM-sSEED"}),
    ("stage", pa.int8(), {"doc": "the stage that made the policy; -1 is the base policy"}),
    ("set", pa.string(), {"doc": "test or validation"}),
    ("id", pa.string(), None),
    ("completion", pa.string(), None),
)
ANSWER_SCHEMA = pa.schema([pa.field(name, kind, False, told) for name, kind, told in _COLUMNS])


@dataclass(frozen=True)
class Answers:
    """What one policy answered to one set."""

    policy: str
    stage: int
    set: SetName
    completions: tuple[str, ...]
    """One for each instance of the set, in its order."""


class StoredRun(Frozen):
    """One curriculum of a round."""

    arm: str
    seed: int
    results: CurriculumResults
    tokens: dict[str, float]
    """Training, evaluation, engineer, pilot; without stage 0."""
    seconds: float
    """Of its steps, without stage 0 and the test."""

    @property
    def policy(self) -> str:
        """What its answers are kept under."""
        return f"{self.arm}-s{self.seed}"


class StoredRound(Frozen):
    """What the curricula of a round did; `curricula.json`."""

    study: str
    round: int
    registered: str
    """Digest of what was registered, see `StudySpec.registered`."""
    code: tuple[str, ...]
    """Versions of the code that its stages were made with."""
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    """That are complete for all arms."""
    stage_0: Stage0 = "one"
    runs: tuple[StoredRun, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        known, found = {*product(self.arms, self.seeds)}, [(run.arm, run.seed) for run in self.runs]
        if odd := sorted({pair for pair in found if pair not in known or found.count(pair) > 1}):
            raise ValueError(f"runs: {odd} are there twice, or of no arm and seed of the round")
        return self


Outcomes = Mapping[str, np.ndarray]
"""`valid`, `optimal` and failure `category` of one policy on one set: arrays of shape (instances,)."""


@dataclass(frozen=True)
class RoundData:
    """A round, every answer judged anew."""

    stored: StoredRound
    family: TaskFamily
    instances: dict[SetName, list[Any]]
    outcomes: dict[tuple[str, int, SetName], Outcomes]
    """(policy, stage, set) -> verdicts.

    Of the test there are the base policy, every stage 0 and each final policy only.
    """

    def runs(self, arm: str) -> list[StoredRun]:
        """The curricula of an arm, in the order of the seeds."""
        of_arm = {run.seed: run for run in self.stored.runs if run.arm == arm}
        return [of_arm[seed] for seed in self.stored.seeds if seed in of_arm]

    def after(self, run: StoredRun, stage: int, name: SetName) -> Outcomes:
        """The policy that a stage of a run made; stage 0 and the base policy (-1) are shared."""
        policy = run.policy if stage > 0 else shared_policy(stage, self.stored.stage_0, run.seed)
        return self.outcomes[policy, stage, name]


def write_round(
    folder: Path, stored: StoredRound, instances: dict[SetName, list[Any]], answers: Iterable[Answers]
) -> None:
    """Write both files of a round; without `curricula.json`, which is written last, there is no round."""
    (folder / CURRICULA).unlink(missing_ok=True)
    ids = {name: [instance.id for instance in found] for name, found in instances.items()}
    rows = [
        {"policy": one.policy, "stage": one.stage, "set": one.set, "id": name, "completion": completion}
        for one in answers
        for name, completion in zip(ids[one.set], one.completions, strict=True)
    ]
    write_table(folder / ANSWERS, pa.Table.from_pylist(rows, ANSWER_SCHEMA))
    write_json(folder / CURRICULA, stored)


def read_instances(data: Path) -> dict[SetName, list[Any]]:
    """The instances of both sets; DataError if a file is missing or damaged."""
    return {name: read_dataset(data / f"{name}.parquet") for name in SETS}


def stored_seeds(data: Path, number: int) -> tuple[int, ...]:
    """The seeds that a study's data hold of a round, complete for all arms; none if it holds no round."""
    return _stored(data, number).seeds if (data / f"round-{number}" / CURRICULA).exists() else ()


def read_answers(data: Path, number: int) -> tuple[StoredRound, list[Answers]]:
    """What is stored of a round, as its policies answered.

    DataError if a file is missing, damaged or does not fit.
    """
    stored, path = _stored(data, number), data / f"round-{number}" / ANSWERS
    ids = {name: [instance.id for instance in found] for name, found in read_instances(data).items()}
    rows = read_table(path, ANSWER_SCHEMA).to_pandas()
    answers = []
    for (policy, stage, name), part in rows.groupby(["policy", "stage", "set"], sort=True):
        if name not in ids or part["id"].tolist() != ids[name]:
            raise DataError(
                f"{path}: {policy}, stage {stage}, set {name!r}: its ids are not those of "
                f"{data / f'{name}.parquet'}; take the files of one run"
            )
        answers.append(Answers(policy, int(stage), name, tuple(part["completion"])))
    return stored, answers


def read_round(data: Path, number: int) -> RoundData:
    """A round of a study's data, with every answer judged anew; errors as in `read_answers`."""
    stored, answers = read_answers(data, number)
    instances, family = read_instances(data), family_of(data / f"{SETS[0]}.parquet").load()
    outcomes: dict[tuple[str, int, SetName], Outcomes] = {
        (one.policy, one.stage, one.set): _judged(family, instances[one.set], one.completions)
        for one in answers
    }
    return RoundData(stored=stored, family=family, instances=instances, outcomes=outcomes)


def _stored(data: Path, number: int) -> StoredRound:
    path = data / f"round-{number}" / CURRICULA
    missing = f"{path}: no such file; run the study, or give the folder of its data"
    return read_model(path, StoredRound, missing, "put it back", DataError)


def _judged(family: TaskFamily, instances: list[Any], completions: Sequence[str]) -> Outcomes:
    verdicts = family.judge(instances, completions)
    return {
        "valid": np.array([verdict.valid for verdict in verdicts]),
        "optimal": np.array([verdict.optimal for verdict in verdicts]),
        "category": np.array([verdict.category for verdict in verdicts], dtype=object),
    }
