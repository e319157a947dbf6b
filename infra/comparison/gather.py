"""Read what the curricula of a comparison left on disk, and sum it up."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from envgen.dataset import read_table
from envgen.errors import DataError, RunDirectoryError
from infra.comparison import statistics
from infra.comparison.pilot_gain import PilotPair, pilot_pairs, rank_correlations
from infra.comparison.results import BASELINES, Against, ChildResult, ComparisonResults, EngineerResult, State
from infra.comparison.spec import Child, ComparisonSpec, EngineerVariant
from infra.preset import Preset
from infra.runs.fork import STAGE_STEPS
from infra.runs.results import CurriculumResults
from infra.runs.run import FREE_FIELDS, Run, changed_fields
from infra.runs.stage import Stage
from infra.runs.steps import stage_directory

_COLUMNS = pa.schema([pa.field("id", pa.string(), nullable=False), *(pa.field(name, pa.bool_(), nullable=False) for name in ("valid", "optimal"))])
RATES = ("valid", "optimal")


@dataclass(frozen=True)
class Finished:
    """What a finished curriculum of a comparison says."""

    outcomes: dict[str, np.ndarray]
    """Rate -> outcomes of shape (start policy and stages, instances)."""
    final: int
    """Stage whose policy is in force at the end."""
    ids: tuple[str, ...]
    """Identities of the instances, in order."""
    tokens: dict[str, float]
    seconds: float
    training_seconds: float
    """Of the optimizer steps of all stages."""
    pilots: tuple[PilotPair, ...]
    """What pilots said of its configs, and the gains that followed."""


def finished(directory: Path, preset: Preset) -> Finished | None:
    """What a run directory says if all stages of the preset are done there; None if it is to be run, first or again."""
    try:
        if changed_fields(Run(directory=directory).curriculum.preset, preset, FREE_FIELDS):
            return None
        results = Run(directory=directory).results
        if len(results.stages) < preset.stages:
            return None
        return _read(directory, results.model_copy(update={"stages": results.stages[: preset.stages]}))
    except (RunDirectoryError, DataError, OSError, ValueError, KeyError):
        return None


def _read(directory: Path, results: CurriculumResults) -> Finished:
    parts = [directory / "start", *(stage_directory(directory, stage.stage) for stage in results.stages)]
    tables = [read_table(part / Stage.rollouts.name, _COLUMNS) for part in parts]
    ids = [tuple(table["id"].to_pylist()) for table in tables]
    if len(set(ids)) > 1:
        raise DataError(f"{directory}: the stages were evaluated on different instances")
    manifests = [json.loads((part / Stage.manifest.name).read_bytes()) for part in parts[1:]]
    seconds = sum(value for stage in results.stages for step, value in stage.seconds.items() if stage.stage or step not in STAGE_STEPS)
    return Finished(
        outcomes={name: np.stack([table[name].to_numpy() for table in tables]) for name in RATES},
        final=results.final.stage,
        ids=ids[0],
        tokens=_tokens([manifest["tokens"] for manifest in manifests]),
        seconds=seconds,
        training_seconds=sum(stage.training.seconds for stage in results.stages),
        pilots=tuple(pilot_pairs(directory.name, results)),
    )


def _tokens(stages: list[dict[str, int]]) -> dict[str, float]:
    """Tokens of a run; training and evaluation of stage 0 are shared and left out."""
    own = stages[1:]
    return {
        "training": sum(tokens["training"] for tokens in own),
        "evaluation": sum(tokens["evaluation"] for tokens in own),
        "engineer": sum(value for tokens in stages for name, value in tokens.items() if name.startswith("engineer")),
        "pilot": sum(tokens["pilot"] for tokens in stages),
    }


def gather(directory: Path, spec: ComparisonSpec, failures: Mapping[str, str]) -> ComparisonResults:
    """Everything the comparison has shown so far. `failures` says of children, by name, why they failed."""
    found = {child.name: finished(directory / child.name, spec.preset_of(child)) for child in spec.children}
    known = [one for one in found.values() if one]
    if len({one.ids for one in known}) > 1:
        raise DataError(f"{directory}: the curricula were evaluated on different instances, so that they cannot be compared; move the directory away")
    pilots = tuple(pair for one in known for pair in one.pilots)
    runs = {engineer.label: {seed: one for seed in spec.seeds if (one := found[Child(engineer=engineer, seed=seed).name])} for engineer in spec.engineers}
    return ComparisonResults(
        comparison=spec.name,
        preset=spec.preset.name,
        stages=spec.preset.stages,
        instances=len(known[0].ids) if known else 0,
        seeds=spec.seeds,
        stage0_seed=spec.preset.seed,
        engineers=tuple(_engineer(engineer, runs[engineer.label], {name: runs[name] for name in BASELINES if name in runs}) for engineer in spec.engineers),
        children=tuple(_child(child, found[child.name] is not None, failures) for child in spec.children),
        pilots=pilots,
        pilot_gain=rank_correlations(pilots),
    )


def _child(child: Child, done: bool, failures: Mapping[str, str]) -> ChildResult:
    reason = "" if done else failures.get(child.name, "")
    state = State.FINISHED if done else State.FAILED if reason else State.WAITING
    return ChildResult(engineer=child.engineer.label, seed=child.seed, state=state, reason=reason)


def _engineer(engineer: EngineerVariant, runs: dict[int, Finished], baselines: dict[str, dict[int, Finished]]) -> EngineerResult:
    bare = EngineerResult(label=engineer.label, designer=engineer.designer, variant=engineer.variant, seeds=tuple(runs))
    if not runs:
        return bare
    valid, optimal = (_curve(runs, name) for name in RATES)
    final = {name: _final(list(runs.values()), name) for name in RATES}
    figures = {
        "valid": statistics.rate(final["valid"]),
        "optimal": statistics.rate(final["optimal"]),
        "valid_area": statistics.rate(statistics.area(valid[1:])),
        "optimal_area": statistics.rate(statistics.area(optimal[1:])),
        "valid_curve": tuple(map(statistics.rate, valid)),
        "optimal_curve": tuple(map(statistics.rate, optimal)),
        "final_by_seed": {seed: float(row.mean()) for seed, row in zip(runs, final["valid"], strict=True)},
        "tokens": {name: float(np.mean([run.tokens[name] for run in runs.values()])) for name in next(iter(runs.values())).tokens},
        "seconds": float(np.mean([run.seconds for run in runs.values()])),
        "against": {name: found for name, others in baselines.items() if name != engineer.label and (found := _against(runs, others))},
    }
    return bare.model_copy(update=figures)


def _against(runs: dict[int, Finished], others: dict[int, Finished]) -> Against | None:
    both = [seed for seed in runs if seed in others]
    if not both:
        return None
    valid, optimal = (statistics.difference(_final([runs[s] for s in both], name), _final([others[s] for s in both], name)) for name in RATES)
    return Against(seeds=len(both), valid=valid, optimal=optimal)


def _final(runs: list[Finished], name: str) -> np.ndarray:
    """Outcomes at the end, of shape (seeds, instances)."""
    return np.stack([run.outcomes[name][run.final + 1] for run in runs])


def _curve(runs: dict[int, Finished], name: str) -> list[np.ndarray]:
    """Outcomes of the start policy and after each stage, each of shape (seeds, instances)."""
    return list(np.stack([run.outcomes[name] for run in runs.values()], axis=1))
