"""A finished curriculum of a comparison, as its run directory has it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from engineer.gate import BASE_POLICY
from envgen.dataset import read_table
from envgen.errors import DataError, EnvwrightError, RunDirectoryError
from infra.config.preset import Preset
from infra.results import CurriculumResults
from infra.runs.files import CURRICULUM, MANIFEST, RESULTS, ROLLOUTS, TEST_ROLLOUTS, File
from infra.runs.run import FREE_FIELDS, Run, changed_fields

_FIELDS = (("id", pa.string()), ("stratum", pa.string()), ("valid", pa.bool_()), ("optimal", pa.bool_()))
_COLUMNS = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _FIELDS])


@dataclass(frozen=True)
class Judged:
    """The answers of the base policy, then after each stage, to one set."""

    ids: tuple[str, ...]
    """Identities of the instances, in order."""
    strata: np.ndarray
    """Stratum of each instance."""
    outcomes: Mapping[str, np.ndarray]
    """`valid`, `optimal` -> mean over the answers to an instance, `pass` -> whether one of them is valid; of
    shape (evaluations, instances), 0 to 1."""


@dataclass(frozen=True)
class Finished:
    """A curriculum whose stages are all done."""

    test: Judged
    validation: Judged
    results: CurriculumResults

    @property
    def in_force(self) -> list[int]:
        """Numbers of the evaluations of the base policy, and of the policy in force after each stage."""
        return [0, *(stage.gate.in_force + 1 for stage in self.results.stages)]

    @property
    def final(self) -> int:
        """Number of the evaluation of the policy that is in force at the end."""
        return self.in_force[-1]

    @property
    def curve(self) -> np.ndarray:
        """Valid rates on the test set of these policies, of shape (evaluations, instances)."""
        return self.test.outcomes["valid"][self.in_force]

    @property
    def tokens(self) -> np.ndarray:
        """Generated training tokens up to each evaluation, of shape (evaluations,)."""
        spent = [stage.training.completion_tokens for stage in self.results.stages]
        return np.cumsum([0, *spent]).astype(float)


def read_finished(directory: Path, preset: Preset) -> Finished | None:
    """Return the curriculum of a run directory; None if stages of the preset are left. RunDirectoryError or
    DataError if a directory cannot be read, or is of another preset."""
    run = Run(directory=directory)
    if missing := [file.name for file in (CURRICULUM, RESULTS) if not run.has(file)]:
        complete = sum(1 for _ in directory.glob(f"stage-*/{MANIFEST.name}"))
        if complete >= preset.stages or (complete and CURRICULUM.name in missing):
            raise RunDirectoryError(f"{directory}: {missing[0]} is missing; run the same command again")
        return None
    if changed := changed_fields(run.read(CURRICULUM).preset, preset, FREE_FIELDS):
        raise RunDirectoryError(f"{directory}: was made by another preset ({changed})")
    results = run.read(RESULTS)
    if len(results.stages) < preset.stages:
        return None
    results = results.model_copy(update={"stages": results.stages[: preset.stages]})
    return Finished(_judged(run, results, TEST_ROLLOUTS), _judged(run, results, ROLLOUTS), results)


def is_finished(directory: Path, preset: Preset) -> bool:
    """Whether a run directory holds a whole curriculum of the preset that can be read."""
    try:
        return read_finished(directory, preset) is not None
    except (EnvwrightError, OSError, ValueError, KeyError):
        return False


def _judged(run: Run, results: CurriculumResults, file: File) -> Judged:
    numbers = [BASE_POLICY, *(stage.stage for stage in results.stages)]
    tables = [read_table(run.path(file, number), _COLUMNS) for number in numbers]
    ids = [tuple(table["id"].to_pylist()) for table in tables]
    if len(set(ids)) > 1:
        raise DataError(f"{run.directory}: {file.name}: the stages were evaluated on different instances")
    samples = run.preset.evaluation.samples
    valid, optimal = (
        np.stack([table[name].to_numpy() for table in tables]).reshape(len(tables), -1, samples)
        for name in ("valid", "optimal")
    )
    return Judged(
        ids=ids[0][::samples],
        strata=np.array(tables[0]["stratum"].to_pylist()[::samples]),
        outcomes={
            "valid": valid.mean(axis=2),
            "optimal": optimal.mean(axis=2),
            "pass": valid.any(axis=2).astype(float),
        },
    )
