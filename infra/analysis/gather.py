"""What the curricula of a comparison left on disk, summed up; the one estimator of rates and differences."""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    Against,
    ArmResult,
    ChildResult,
    ComparisonResults,
    Pair,
    RateName,
    State,
)
from infra.analysis.spec import Child, ComparisonSpec, compare_command
from infra.analysis.statistics import area, effect, rate
from infra.config.preset import Preset
from infra.runs.fork import STAGE_STEPS
from infra.runs.results import CurriculumResults, Made
from infra.runs.run import FREE_FIELDS, Run, changed_fields
from infra.runs.stage import Evaluation

_FIELDS = (("id", pa.string()), ("valid", pa.bool_()), ("optimal", pa.bool_()))
_COLUMNS = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _FIELDS])


@dataclass(frozen=True)
class Finished:
    """What a finished curriculum of a comparison says."""

    outcomes: Mapping[str, np.ndarray]
    """Rate -> outcomes on the validation set, of shape (base policy and stages, instances)."""
    final: int
    """Stage whose policy is in force at the end."""
    ids: tuple[str, ...] = ()
    """Identities of the instances, in order."""
    tokens: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    training_seconds: float = 0.0
    """Of the optimizer steps of all stages."""
    made: Made = field(default_factory=Made)
    """All of it, with what runs share."""

    def end(self, name: str) -> np.ndarray:
        """Outcomes of the final policy, of shape (instances,)."""
        return self.outcomes[name][self.final + 1]


Runs = Mapping[int, Finished]
"""Seed -> the curriculum of an arm."""


def finished(directory: Path, preset: Preset) -> Finished | None:
    """What a run directory says if all stages of the preset are done there; None if it is to be run."""
    run = Run(directory=directory)
    try:
        if changed_fields(run.curriculum.preset, preset, FREE_FIELDS):
            return None
        results = run.results
        if len(results.stages) < preset.stages:
            return None
        return _read(run, results.model_copy(update={"stages": results.stages[: preset.stages]}))
    except (RunDirectoryError, DataError, OSError, ValueError, KeyError):
        return None


def ended(directory: Path, preset: Preset) -> Finished:
    """As `finished`; RunDirectoryError if it is to be run."""
    if found := finished(directory, preset):
        return found
    raise RunDirectoryError(f"{directory}: not finished; run the same command again to continue it")


def _read(run: Run, results: CurriculumResults) -> Finished:
    numbers = [stage.stage for stage in results.stages]
    evaluations = [run.evaluation(number) for number in (BASE_POLICY, *numbers)]
    tables = [read_table(evaluation.path(Evaluation.rollouts), _COLUMNS) for evaluation in evaluations]
    ids = [tuple(table["id"].to_pylist()) for table in tables]
    if len(set(ids)) > 1:
        raise DataError(f"{run.directory}: the stages were evaluated on different instances")
    steps = [(stage.stage, *step) for stage in results.stages for step in stage.seconds.items()]
    return Finished(
        outcomes={name: np.stack([table[name].to_numpy() for table in tables]) for name in RATES},
        final=results.final.stage,
        ids=ids[0],
        tokens=_tokens([run.stage(number).manifest["tokens"] for number in numbers]),
        seconds=sum(seconds for stage, step, seconds in steps if stage or step not in STAGE_STEPS),
        training_seconds=sum(stage.training.seconds for stage in results.stages),
        made=results.made,
    )


def _tokens(stages: list[dict[str, int]]) -> dict[str, float]:
    """Tokens of a run; training and evaluation of stage 0 are shared and left out."""
    own = stages[1:]
    return {
        "training": sum(tokens["training"] for tokens in own),
        "evaluation": sum(tokens["evaluation"] for tokens in own),
        "engineer": sum(
            sum(used for name, used in tokens.items() if name.startswith("engineer")) for tokens in stages
        ),
    }


def gather(directory: Path, spec: ComparisonSpec, failures: Mapping[str, str]) -> ComparisonResults:
    """Everything the comparison has shown so far. `failures` says of children, by name, why they failed."""
    found = {child.name: finished(directory / child.name, spec.preset_of(child)) for child in spec.children}
    known = [one for one in found.values() if one]
    if len({one.ids for one in known}) > 1:
        raise DataError(
            f"{directory}: the curricula were evaluated on different instances, so that they cannot be "
            "compared; move the directory away"
        )
    runs: dict[str, dict[int, Finished]] = {}
    for child in spec.children:
        if one := found[child.name]:
            runs.setdefault(child.arm.label, {})[child.seed] = one
    baselines = {name: runs[name] for name in BASELINES if name in runs}
    arms = [
        arm_result(arm.label, runs.get(arm.label, {}), baselines, arm.engineer, arm.variant)
        for arm in spec.arms
    ]
    return ComparisonResults(
        comparison=spec.name,
        preset=spec.preset.name,
        stages=spec.preset.stages,
        instances=len(known[0].ids) if known else 0,
        best=spec.preset.space.best,
        seeds=spec.seeds,
        stage_0=spec.stage_0,
        stage0_seed=spec.preset.seed,
        arms=tuple(arms),
        children=tuple(_child(child, found[child.name] is not None, failures) for child in spec.children),
        pairs=tuple(_pairs(runs)),
        made=_made(directory, spec, known),
        command=compare_command(spec),
    )


def _pairs(runs: Mapping[str, Runs]) -> Iterator[Pair]:
    for arm, other in combinations(runs, 2):
        if found := against(runs[arm], runs[other]):
            yield Pair(arm=arm, minus=other, valid=found.valid)


def _made(directory: Path, spec: ComparisonSpec, known: Sequence[Finished]) -> Made:
    """What all curricula took, with the stages 0 that they share once."""
    whole = Made.together(one.made for one in known)
    roots = [Run(directory=directory / name) for name in spec.roots]
    shared = Made.together(root.results.made for root in roots if root.has(Run.results))
    own = Made(
        seconds=sum(one.seconds for one in known), tokens=sum(sum(one.tokens.values()) for one in known)
    )
    spent = Made.together([own, shared]).model_dump(include={"seconds", "tokens"})
    return Made.together([whole, shared]).model_copy(update=spent)


def _child(child: Child, done: bool, failures: Mapping[str, str]) -> ChildResult:
    reason = "" if done else failures.get(child.name, "")
    state = State.FINISHED if done else State.FAILED if reason else State.WAITING
    return ChildResult(arm=child.arm.label, seed=child.seed, state=state, reason=reason)


def arm_result(
    label: str, runs: Runs, baselines: Mapping[str, Runs], engineer: str = "", variant: str = ""
) -> ArmResult:
    """The figures of an arm over its seeds, and its differences to the baselines but itself."""
    if not runs:
        return ArmResult(label=label, engineer=engineer, variant=variant, seeds=())
    every = list(runs.values())
    differences = {base: against(runs, others) for base, others in baselines.items() if base != label}
    rates: dict[str, Any] = {}
    for name in RATES:
        curve = list(np.stack([run.outcomes[name] for run in every], axis=1))
        rates[name], rates[f"{name}_curve"] = rate(final(runs, name)), tuple(map(rate, curve))
        rates[f"{name}_area"] = rate(area(curve[1:] or curve))
    return ArmResult(
        label=label,
        engineer=engineer,
        variant=variant,
        seeds=tuple(runs),
        **rates,
        final_by_seed={seed: float(run.end("valid").mean()) for seed, run in runs.items()},
        tokens={
            name: float(np.mean([run.tokens.get(name, 0.0) for run in every])) for name in every[0].tokens
        },
        seconds=float(np.mean([run.seconds for run in every])),
        training_seconds=float(np.mean([run.training_seconds for run in every])),
        against={base: found for base, found in differences.items() if found},
    )


def against(runs: Runs, others: Runs) -> Against | None:
    """The differences of an arm to another one; None if they have no seed in common."""
    seeds = len(runs.keys() & others.keys())
    valid, optimal = (effect(change(runs, others, name)) if seeds else None for name in RATES)
    return Against(seeds=seeds, valid=valid, optimal=optimal) if valid and optimal else None


def change(runs: Runs, others: Runs, name: RateName) -> np.ndarray:
    """Outcomes at the end minus those of others, over the seeds of both: (seeds, instances), -1 to 1."""
    return differences(runs, others, lambda run: run.end(name))


def differences(runs: Runs, others: Runs, outcomes: Callable[[Finished], np.ndarray]) -> np.ndarray:
    """Outcomes of the runs minus those of others, over the seeds of both, stacked along a first axis."""
    pairs = [(runs[seed], others[seed]) for seed in runs if seed in others]
    return np.stack([outcomes(one).astype(np.int8) - outcomes(other) for one, other in pairs])


def final(runs: Runs, name: RateName) -> np.ndarray:
    """Outcomes at the end, of shape (seeds, instances)."""
    return np.stack([run.end(name) for run in runs.values()])
