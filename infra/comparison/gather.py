"""What the curricula of a comparison left on disk, summed up."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from engineer.engineers.registry import engineer_label
from envgen.config import SHARE
from envgen.errors import EnvwrightError
from envgen.estimates import difference, holm, rate
from infra.comparison.finished import Finished, read_finished
from infra.comparison.results import ArmResult, ChildResult, ComparisonResults, Figure, Pair, Spent
from infra.comparison.spec import ComparisonSpec
from infra.comparison.speed import speed
from infra.config.preset import Preset
from infra.results import Made, StageResult
from policy.chat.contract import token_sum

Runs = Mapping[int, Finished]
"""Seed -> the curriculum of an arm."""
Figures = Mapping[Figure, pd.DataFrame]
"""Values from 0 to 1: a row for each arm and seed, a column for each instance, labelled by its stratum.
Labels repeat, so that differences need arrays."""


def gather(directory: Path, spec: ComparisonSpec, failures: Mapping[str, str]) -> ComparisonResults:
    """Return everything the comparison has shown so far. `failures`: name of a child -> why it failed."""
    file, space = spec.file, spec.base.space
    runs: dict[str, dict[int, Finished]] = {label: {} for label in file.arms}
    children, first = [], None
    for child in spec.children:
        seed, state, reason, run = child.preset.seed, "waiting", failures.get(child.name, ""), None
        try:
            run = read_finished(directory / child.name, child.preset)
            if run and first and (run.test.ids, run.validation.ids) != (first.test.ids, first.validation.ids):
                run, state, reason = None, "unreadable", "was evaluated on other instances than the first one"
        except (EnvwrightError, OSError, ValueError, KeyError) as error:
            state, reason = "unreadable", reason or str(error)
        if run:
            state, reason, first = "finished", "", first or run
            runs[child.arm][seed] = run
        elif reason and state == "waiting":
            state = "failed"
        valid = float(run.curve[-1].mean()) if run else None
        children.append(ChildResult(arm=child.arm, seed=seed, state=state, valid=valid, reason=reason))
    complete = {(arm, seed): run for arm, of_arm in runs.items() for seed, run in of_arm.items()}
    strata = _by_difficulty([*complete.values()], space.names)
    hardest = strata[-math.ceil(len(strata) / 4) :] if strata else ()
    figures = _figures(complete, hardest, spec.base) if complete else {}
    base = runs[file.baseline_arms[0]] if file.baseline_arms else {}
    pairs = [_pair(*pair, figures) for pair in spec.pairs if runs[pair[0]].keys() & runs[pair[1]].keys()]
    arms = (_arm(label, spec.presets[label], of_arm, base, figures) for label, of_arm in runs.items())
    return ComparisonResults(
        file=file,
        preset=spec.base.name,
        stages=spec.base.stages,
        instances=len(first.test.ids) if first else 0,
        best=space.best,
        strata={name: space.label(name) for name in strata},
        hardest=hardest,
        registrations=spec.registrations,
        arms=tuple(arms),
        children=tuple(children),
        pairs=tuple(_adjusted(pairs, spec)),
        made=Made.together(run.results.made for run in complete.values()),
    )


def _by_difficulty(runs: Sequence[Finished], names: Sequence[str]) -> tuple[str, ...]:
    """Return the strata of the test set by the valid rate of the base policy, the highest first."""
    solved = {
        name: np.mean([run.curve[0][run.test.strata == name] for run in runs])
        for name in names
        if runs and name in runs[0].test.strata
    }
    return tuple(sorted(solved, key=lambda name: -solved[name]))


def _figures(runs: Mapping[tuple[str, int], Finished], hardest: Sequence[str], base: Preset) -> Figures:
    """Return the figures of these runs; `hardest`: the hardest quarter of the strata."""

    def frame(rows: Iterable[np.ndarray], strata: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame(np.stack([*rows]), pd.MultiIndex.from_tuples(runs), strata)

    each, samples = runs.values(), base.evaluation.samples
    horizon = min(run.tokens[-1] for run in each)  # generated tokens that all runs have
    test, validation = next((run.test.strata, run.validation.strata) for run in each)
    valid, optimal, solved = (
        frame((run.test.outcomes[name][run.final] for run in each), test)
        for name in ("valid", "optimal", "pass")
    )
    return {
        "valid": valid,
        **({"optimal": optimal} if base.space.best else {}),
        **({f"pass@{samples}": solved} if samples > 1 else {}),
        "hardest": valid.loc[:, np.isin(test, hardest)],
        **({"area": frame((_area(run, horizon) for run in each), test)} if horizon else {}),
        "validation": frame((run.validation.outcomes["valid"][run.final] for run in each), validation),
    }


def _area(run: Finished, horizon: float) -> np.ndarray:
    """Return the mean valid rate of each instance over the generated tokens up to `horizon`."""
    places = np.unique([*run.tokens[run.tokens < horizon], horizon])
    heights = [np.interp(places, run.tokens, unit) for unit in np.eye(len(run.tokens))]
    return np.asarray(np.trapezoid(heights, places) / horizon) @ run.curve


def _pair(arm: str, minus: str, figures: Figures) -> Pair:
    """Return the differences of an arm to another one over the seeds of both."""
    mine, other = (figures["valid"].loc[label].index for label in (arm, minus))
    seeds = [seed for seed in mine if seed in other]
    differences = {
        name: difference(
            values.loc[arm].loc[seeds].to_numpy() - values.loc[minus].loc[seeds].to_numpy(), values.columns
        )
        for name, values in figures.items()
    }
    return Pair(arm=arm, minus=minus, seeds=tuple(seeds), differences=differences)


def _adjusted(pairs: Sequence[Pair], spec: ComparisonSpec) -> list[Pair]:
    """Add the adjusted p-values of the differences that words are about."""
    by_names = {(pair.arm, pair.minus): pair for pair in pairs}
    tested = [test for test in spec.tested if test[:2] in by_names]
    p = {test: by_names[test[:2]].differences[test[2]].p for test in tested}
    alone = (spec.file.primary, *spec.file.baseline_arms[:1], "valid")
    rest = [test for test in tested if test != alone]
    p |= dict(zip(rest, holm([p[test] for test in rest]), strict=True))
    adjusted = {names: {test[2]: p[test] for test in tested if test[:2] == names} for names in by_names}
    return [pair.model_copy(update={"adjusted": adjusted[names]}) for names, pair in by_names.items()]


def _arm(label: str, preset: Preset, runs: Runs, base: Runs, figures: Figures) -> ArmResult:
    """Return the figures of an arm over its seeds; `base` are the runs of the first baseline."""
    engineer = engineer_label(preset.engineer.name, preset.engineer.context)
    if not runs:
        return ArmResult(label=label, engineer=engineer)
    of_seeds, valid = list(runs.values()), figures["valid"].loc[label]
    test = valid.columns
    curve = np.stack([run.curve for run in of_seeds], axis=1)
    stages = [stage for run in of_seeds for stage in run.results.stages]
    both = [(run, base[seed]) for seed, run in runs.items() if seed in base]
    # The last stage proposes a config that nothing is trained on.
    designed = [stage for run in of_seeds for stage in run.results.stages[:-1] if not stage.overruled]
    return ArmResult(
        label=label,
        engineer=engineer,
        seeds=tuple(runs),
        rates={name: rate(part.loc[label], part.columns) for name, part in figures.items()},
        strata={name: rate(valid.loc[:, test == name]) for name in test.unique()},
        curve=tuple(rate(part, test) for part in curve),
        tokens=tuple(np.mean([run.tokens for run in of_seeds], axis=0)),
        configs=tuple(map(_mean_config, zip(*(run.results.stages for run in of_seeds), strict=True))),
        designs_used=sum(stage.design_used for stage in designed),
        designs_asked=len(designed),
        undone=sum(stage.overruled for stage in stages),
        no_signal=float(np.mean([stage.training.zero_variance_share for stage in stages])),
        spent=_spent(stages, len(of_seeds)),
        speed=speed(*zip(*both, strict=True)) if both else None,
    )


def _mean_config(stages: Sequence[StageResult]) -> dict[str, dict[str, float]]:
    """Stratum -> mean share of the data and mean of each knob, over the same stage of several runs."""
    configs = [stage.config.strata for stage in stages]
    parts = {name: [config[name] for config in configs if name in config] for name in chain(*configs)}
    means = {}
    for name, of_runs in parts.items():
        knobs = pd.DataFrame([part.knobs for part in of_runs]).mean().to_dict()
        means[name] = {SHARE: sum(part.data_ratio for part in of_runs) / len(configs), **knobs}
    return means


def _spent(stages: Sequence[StageResult], runs: int) -> Spent:
    purposes = ("engineer_prompt", "engineer_completion")
    engineer = token_sum(stage.tokens.get(name, 0) for stage in stages for name in purposes)
    return Spent(
        training_tokens=sum(stage.training.completion_tokens for stage in stages) / runs,
        training_seconds=sum(stage.seconds.get("train", 0.0) for stage in stages) / runs,
        engineer_tokens=None if engineer is None else engineer / runs,
        engineer_seconds=sum(stage.seconds.get("engineer", 0.0) for stage in stages) / runs,
    )
