"""What the constant arms and the look-ahead of a headroom measurement end at.

Configs are chosen on one half of the validation set, every second instance, and reported on the other: the best of a dozen
is too high where it was chosen. Without a look-ahead nothing is chosen, and all instances are reported on.
"""

from pathlib import Path

import numpy as np

from envgen.breakdown import Rate
from envgen.errors import RunDirectoryError
from envgen.frozen import Frozen
from infra.analysis.comparison.gather import Finished, finished
from infra.analysis.comparison.statistics import rate
from infra.analysis.headroom.spec import LOOK_AHEAD, HeadroomSpec
from infra.analysis.study.effects import Effect, effect
from infra.preset import Preset

CHOSEN_ON, REPORTED_ON, ALL = slice(0, None, 2), slice(1, None, 2), slice(None)
"""Instances of the validation set."""
FIT = 2.0
"""A preset is fit for a study if the best beats the first config by so many times the smallest visible difference."""


class Arm(Frozen):
    """A constant config, or the look-ahead, at the end of its curricula, on the instances that nothing was chosen on."""

    name: str
    valid: Rate
    optimal: Rate
    to_baseline: Effect | None
    """Valid rate minus that of the first config; None for that config itself."""
    optimal_to_baseline: Effect | None
    chosen: float
    """Valid rate that the best is chosen by."""
    minutes: float
    """That training took, mean over the seeds."""
    chains: tuple[tuple[str, ...], ...] = ()
    """Of the look-ahead: the configs that it chose, stage by stage, for each seed."""


class Headroom(Frozen):
    """The whole measurement."""

    name: str
    preset: str
    stages: int
    seeds: tuple[int, ...]
    instances: int
    """That are reported on."""
    start: Rate
    """Valid rate of the base policy."""
    arms: tuple[Arm, ...]
    """In the order of the spec, the look-ahead, if there is one, last."""

    @property
    def look_ahead(self) -> Arm | None:
        """The look-ahead, if it was run."""
        return self.arms[-1] if self.arms[-1].name == LOOK_AHEAD else None

    @property
    def best(self) -> Arm:
        """The constant config with the highest valid rate where configs are chosen, or, without a look-ahead, where all is reported."""
        return max((arm for arm in self.arms if arm.name != LOOK_AHEAD), key=lambda arm: arm.chosen)

    @property
    def changes(self) -> bool:
        """Whether the look-ahead chose more than one config in a chain."""
        return any(len(set(chain)) > 1 for arm in self.arms for chain in arm.chains)

    @property
    def fit(self) -> bool:
        """Whether there is something to design: a visible gain over the first config, by configs that change over the stages."""
        gains = [arm.to_baseline for arm in (self.best, self.look_ahead) if arm and arm.to_baseline is not None]
        return self.changes and any(gain.value > FIT * gain.detectable for gain in gains)


def gather(directory: Path, spec: HeadroomSpec, chains: dict[int, tuple[str, ...]]) -> Headroom:
    """Sum up finished curricula; RunDirectoryError names one that is not finished."""
    runs = {name: [_finished(directory / constant_name(name, seed), spec.constant(name, seed)) for seed in spec.seeds] for name in spec.configs}
    if spec.look_ahead:
        runs[LOOK_AHEAD] = [_finished(directory / chain_name(chains[seed], seed), spec.step(chains[seed], seed)) for seed in spec.seeds]
    first, part = runs[spec.baseline], REPORTED_ON if spec.look_ahead else ALL
    start = np.stack([run.outcomes["valid"][0, part] for run in first])
    return Headroom(
        name=spec.name,
        preset=spec.preset,
        stages=spec.stages,
        seeds=spec.seeds,
        instances=start.shape[1],
        start=rate(start),
        arms=tuple(_arm(name, found, None if name == spec.baseline else first, chains, part) for name, found in runs.items()),
    )


def chosen_rate(run: Finished) -> float:
    """Valid rate of the last stage where configs are chosen."""
    return float(run.outcomes["valid"][-1, CHOSEN_ON].mean())


def constant_name(name: str, seed: int) -> str:
    """Directory of a constant arm's curriculum."""
    return f"{name}-s{seed}"


def chain_name(chain: tuple[str, ...], seed: int) -> str:
    """Directory of the curriculum that trains a stage on each config of a chain; the first stage of all is that of a constant arm."""
    return constant_name(chain[0], seed) if len(chain) == 1 else f"{LOOK_AHEAD}-s{seed}-{'.'.join(chain)}"


def _finished(directory: Path, preset: Preset) -> Finished:
    found = finished(directory, preset)
    if found is None:
        raise RunDirectoryError(f"{directory}: is not finished; run the same command again to continue it")
    return found


def _arm(name: str, runs: list[Finished], baseline: list[Finished] | None, chains: dict[int, tuple[str, ...]], part: slice) -> Arm:
    valid, optimal = _final(runs, "valid", part), _final(runs, "optimal", part)
    return Arm(
        name=name,
        valid=rate(valid),
        optimal=rate(optimal),
        to_baseline=effect(valid - _final(baseline, "valid", part).astype(float)) if baseline else None,
        optimal_to_baseline=effect(optimal - _final(baseline, "optimal", part).astype(float)) if baseline else None,
        chosen=float(np.mean([chosen_rate(run) for run in runs])) if part is REPORTED_ON else float(valid.mean()),
        minutes=float(np.mean([run.training_seconds for run in runs])) / 60,
        chains=tuple(chains.values()) if name == LOOK_AHEAD else (),
    )


def _final(runs: list[Finished], name: str, part: slice) -> np.ndarray:
    """Outcomes after the last stage, shape (seeds, instances)."""
    return np.stack([run.outcomes[name][-1, part] for run in runs])
