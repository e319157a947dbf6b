"""What the curricula of a comparison left on disk, summed up; the one estimator of rates and differences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from engineer.gate import BASE_POLICY
from envgen.dataset import read_table
from envgen.errors import DataError, RunDirectoryError
from infra.analysis.results import (
    BASELINES,
    RATES,
    ArmResult,
    ChildResult,
    ComparisonResults,
    Pair,
)
from infra.analysis.spec import Arm, Child, ComparisonSpec
from infra.analysis.statistics import Effect, effect, rate
from infra.config.preset import Preset
from infra.results import CurriculumResults, Made
from infra.runs.files import CURRICULUM, RESULTS, ROLLOUTS
from infra.runs.run import FREE_FIELDS, Run, changed_fields

_FIELDS = (("id", pa.string()), ("valid", pa.bool_()), ("optimal", pa.bool_()))
_COLUMNS = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _FIELDS])


@dataclass(frozen=True)
class Finished:
    """A finished curriculum of a comparison."""

    outcomes: Mapping[str, np.ndarray]
    """Rate -> outcomes on the validation set, of shape (base policy and stages, instances)."""
    final: int
    """Stage whose policy is in force at the end."""
    ids: tuple[str, ...] = ()
    """Identities of the instances, in order."""
    made: Made = field(default_factory=Made)
    """Its time, tokens and machines, with the stage 0 that runs share."""

    def end(self, name: str) -> np.ndarray:
        """Outcomes of the final policy, of shape (instances,)."""
        return self.outcomes[name][self.final + 1]


Runs = Mapping[int, Finished]
"""Seed -> the curriculum of an arm."""


def finished(directory: Path, preset: Preset) -> Finished | None:
    """Read a run directory; None if not all stages of the preset are done there."""
    run = Run(directory=directory)
    try:
        if changed_fields(run.read(CURRICULUM).preset, preset, FREE_FIELDS):
            return None
        results = run.read(RESULTS)
        if len(results.stages) < preset.stages:
            return None
        return _read(run, results.model_copy(update={"stages": results.stages[: preset.stages]}))
    except (RunDirectoryError, DataError, OSError, ValueError, KeyError):
        return None


def _read(run: Run, results: CurriculumResults) -> Finished:
    numbers = [BASE_POLICY, *(stage.stage for stage in results.stages)]
    tables = [read_table(run.path(ROLLOUTS, number), _COLUMNS) for number in numbers]
    ids = [tuple(table["id"].to_pylist()) for table in tables]
    if len(set(ids)) > 1:
        raise DataError(f"{run.directory}: the stages were evaluated on different instances")
    return Finished(
        outcomes={name: np.stack([table[name].to_numpy() for table in tables]) for name in RATES},
        final=results.final_stage,
        ids=ids[0],
        made=results.made,
    )


def gather(directory: Path, spec: ComparisonSpec, failures: Mapping[str, str]) -> ComparisonResults:
    """Return everything the comparison has shown so far. `failures`: name of a child -> why it failed."""
    children = [(child, finished(directory / child.name, child.preset)) for child in spec.children]
    complete = [run for _, run in children if run]
    if len({run.ids for run in complete}) > 1:
        raise DataError(
            f"{directory}: the curricula were evaluated on different instances, so that they cannot be "
            "compared; move the directory away"
        )
    runs: dict[str, dict[int, Finished]] = {arm.label: {} for arm in spec.arms}
    for child, run in children:
        if run:
            runs[child.arm][child.preset.seed] = run
    compared = [(arm, base) for base in BASELINES if base in runs for arm in runs if arm != base]
    compared += combinations([arm for arm in runs if arm not in BASELINES], 2)
    return ComparisonResults(
        comparison=spec.name,
        preset=spec.preset.name,
        stages=spec.preset.stages,
        instances=len(complete[0].ids) if complete else 0,
        best=spec.preset.space.best,
        seeds=spec.seeds,
        stage_0=spec.stage_0,
        stage0_seed=spec.preset.seed,
        arms=tuple(arm_result(arm, runs[arm.label]) for arm in spec.arms),
        children=tuple(_child(child, run, failures) for child, run in children),
        pairs=tuple(pair for names in compared if (pair := _pair(*names, runs))),
        made=Made.together(run.made for run in complete),
    )


def _child(child: Child, run: Finished | None, failures: Mapping[str, str]) -> ChildResult:
    result = ChildResult(arm=child.arm, seed=child.preset.seed)
    if run:
        return result.model_copy(update={"valid": float(run.end("valid").mean())})
    return result.model_copy(update={"reason": failures.get(child.name, "")})


def arm_result(arm: Arm, runs: Runs) -> ArmResult:
    """Return the figures of an arm over its seeds."""
    if not runs:
        return ArmResult(label=arm.label, seeds=())
    of_seeds = list(runs.values())
    rates: dict[str, Any] = {}
    for name in RATES:
        rates[name] = rate(np.stack([run.end(name) for run in of_seeds]))
        curve = np.stack([run.outcomes[name] for run in of_seeds], axis=1)
        rates[f"{name}_curve"] = tuple(map(rate, curve))
    return ArmResult(
        label=arm.label,
        seeds=tuple(runs),
        **rates,
        tokens=float(np.mean([run.made.tokens for run in of_seeds])),
        seconds=float(np.mean([run.made.seconds for run in of_seeds])),
    )


def _pair(arm: str, minus: str, runs: Mapping[str, Runs]) -> Pair | None:
    """Return the differences of an arm to another one; None if they have no seed in common."""
    shared = [(run, runs[minus][seed]) for seed, run in runs[arm].items() if seed in runs[minus]]

    def difference(name: str) -> Effect:
        return effect(np.stack([run.end(name).astype(np.int8) - other.end(name) for run, other in shared]))

    if not shared:
        return None
    return Pair(arm=arm, minus=minus, valid=difference("valid"), optimal=difference("optimal"))
