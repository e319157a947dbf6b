"""What the constant arms and the look-ahead of a headroom measurement end at; `headroom.json`.

Configs are chosen on one half of the validation set, every second instance, and reported on the other: the
best of a dozen is too high where it was chosen. Without a look-ahead nothing is chosen, and all instances
are reported on.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from envgen.breakdown import Rate
from envgen.errors import RunDirectoryError
from envgen.frozen import Frozen
from infra.analysis.gather import RATES, Finished, arm_result, finished
from infra.analysis.headroom.spec import LOOK_AHEAD, Chain, HeadroomSpec
from infra.analysis.results import ArmResult
from infra.analysis.statistics import Effect, rate
from infra.config.preset import Preset

CHOSEN_ON, REPORTED_ON, ALL = slice(0, None, 2), slice(1, None, 2), slice(None)
"""Instances of the validation set."""
FIT = 2.0
"""A preset is fit if the best beats the first config by so many times the smallest visible difference."""


class Headroom(Frozen):
    """The whole measurement."""

    name: str
    preset: str
    stages: int
    seeds: tuple[int, ...]
    instances: int
    """That are reported on."""
    best_word: str | None
    """What the family calls answers that are optimal; None if all valid ones are equal."""
    start: Rate
    """Valid rate of the base policy."""
    arms: tuple[ArmResult, ...]
    """The configs in the order of the spec, then the look-ahead, if there is one."""
    chosen: dict[str, float]
    """Config -> valid rate that the best is chosen by."""
    chains: dict[int, Chain]
    """Seed -> the configs that the look-ahead chose, stage by stage."""

    @property
    def look_ahead(self) -> ArmResult | None:
        """The look-ahead, if it was run."""
        return self.arms[-1] if self.arms[-1].label == LOOK_AHEAD else None

    @property
    def best(self) -> ArmResult:
        """The constant config with the highest valid rate where configs are chosen."""
        return max(
            (arm for arm in self.arms if arm.label in self.chosen), key=lambda arm: self.chosen[arm.label]
        )

    @property
    def changes(self) -> bool:
        """Whether the look-ahead chose more than one config in a chain."""
        return any(len(set(chain)) > 1 for chain in self.chains.values())

    def gain(self, arm: ArmResult) -> Effect | None:
        """Valid rate of an arm minus that of the first config; None for that config itself."""
        baseline = self.arms[0].label
        return arm.against[baseline].valid if baseline in arm.against else None

    @property
    def fit(self) -> bool:
        """Whether there is something to design: a visible gain, by configs that change over the stages."""
        gains = [self.gain(arm) for arm in (self.best, self.look_ahead) if arm]
        return self.changes and any(gain.value > FIT * gain.detectable for gain in gains if gain)


def gather(directory: Path, spec: HeadroomSpec, chains: Mapping[int, Chain]) -> Headroom:
    """Sum up finished curricula; RunDirectoryError names one that is not finished."""
    comparison = spec.comparison
    found: dict[str, dict[int, Finished]] = {}
    for child in comparison.children:
        found.setdefault(child.arm.label, {})[child.seed] = ended(
            directory, child.name, comparison.preset_of(child)
        )
    if spec.look_ahead:
        found[LOOK_AHEAD] = {
            seed: ended(directory, *spec.step(chain, seed)) for seed, chain in chains.items()
        }
    part, chosen_on = (REPORTED_ON, CHOSEN_ON) if spec.look_ahead else (ALL, ALL)
    runs = {
        name: {seed: _judged(run, part) for seed, run in of_seeds.items()} for name, of_seeds in found.items()
    }
    baseline = {spec.baseline: runs[spec.baseline]}
    start = np.stack([run.outcomes["valid"][0, part] for run in runs[spec.baseline].values()])
    return Headroom(
        name=spec.name,
        preset=spec.preset,
        stages=spec.stages,
        seeds=spec.seeds,
        instances=start.shape[1],
        best_word=comparison.preset.space.best,
        start=rate(start),
        arms=tuple(arm_result(name, of_seeds, baseline) for name, of_seeds in runs.items()),
        chosen={
            name: float(np.mean([last_rate(run, chosen_on) for run in found[name].values()]))
            for name in spec.configs
        },
        chains=dict(chains) if spec.look_ahead else {},
    )


def ended(directory: Path, name: str, preset: Preset) -> Finished:
    """The finished curriculum of this name; RunDirectoryError if it is not."""
    found = finished(directory / name, preset)
    if found is None:
        raise RunDirectoryError(
            f"{directory / name}: is not finished; run the same command again to continue it"
        )
    return found


def last_rate(run: Finished, part: slice = CHOSEN_ON) -> float:
    """Valid rate of the last stage, where configs are chosen if not said otherwise."""
    return float(run.outcomes["valid"][-1, part].mean())


def _judged(run: Finished, part: slice) -> Finished:
    return replace(run, judged={name: run.outcomes[name][-1, part] for name in RATES})
