"""What the constant arms and the look-ahead of a headroom measurement end at; `headroom.json` and its page.

Configs are chosen on one half of the instances, every second one, and reported on the other: the best of a
dozen is too high where it was chosen. That leaves the luck of a training, which both halves share: the
policies that the look-ahead chose are those that are reported on. Without a look-ahead all instances are
reported on, and the best arm is too high.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from envgen.breakdown import Rate
from envgen.files import write_json, write_text
from envgen.frozen import Frozen
from infra.analysis.charts import effects_figure, write_png
from infra.analysis.formats import count, listed, markdown_table, narrow, percent, rate_names
from infra.analysis.gather import Finished, arm_result, ended
from infra.analysis.headroom.spec import LOOK_AHEAD, Chain, HeadroomSpec
from infra.analysis.results import RATES, ArmResult
from infra.analysis.statistics import Effect, rate
from infra.config.preset import TUNING_SEED

CHOSEN_ON, REPORTED_ON, ALL = slice(0, None, 2), slice(1, None, 2), slice(None)
"""Instances that a curriculum is evaluated on."""
FIT = 2.0
"""A preset is fit if the best beats the first config by so many times the smallest visible difference."""
RESULTS, PAGE, FIGURE = "headroom.json", "headroom.md", "headroom.png"
MINUTES = "minutes of training"
"""Heading of the last column."""


class Headroom(Frozen):
    """The whole measurement."""

    name: str
    preset: str
    stages: int
    seeds: tuple[int, ...]
    judged: Literal["validation set", "tuning set"]
    """What the curricula are evaluated on."""
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
        return max(self.arms[: len(self.chosen)], key=lambda arm: self.chosen[arm.label])

    @property
    def changes(self) -> bool:
        """Whether the look-ahead chose more than one config in a chain."""
        return any(len(set(chain)) > 1 for chain in self.chains.values())

    def gain(self, arm: ArmResult) -> Effect | None:
        """Valid rate of an arm minus that of the first config; None for that config itself."""
        to_first = arm.against.get(self.arms[0].label)
        return to_first and to_first.valid

    @property
    def fit(self) -> bool:
        """Whether there is something to design: the best config or the look-ahead gains enough, and the
        look-ahead changes its config over the stages."""
        gains = [self.gain(arm) for arm in (self.best, self.look_ahead) if arm]
        return self.changes and any(gain.value > FIT * gain.detectable for gain in gains if gain)


def gather(directory: Path, spec: HeadroomSpec, chains: Mapping[int, Chain]) -> Headroom:
    """Sum up finished curricula; RunDirectoryError names one that is not finished."""
    comparison = spec.comparison
    found: dict[str, dict[int, Finished]] = {}
    for child in comparison.children:
        run = ended(directory / child.name, comparison.preset_of(child))
        found.setdefault(child.arm.label, {})[child.seed] = run
    if spec.look_ahead:
        steps = {seed: spec.step(chain, seed) for seed, chain in chains.items()}
        found[LOOK_AHEAD] = {seed: ended(directory / name, preset) for seed, (name, preset) in steps.items()}
    part, chosen_on = (REPORTED_ON, CHOSEN_ON) if spec.look_ahead else (ALL, ALL)
    runs = {name: {seed: _judged(run, part) for seed, run in one.items()} for name, one in found.items()}
    baseline = {spec.baseline: runs[spec.baseline]}
    start = np.stack([run.outcomes["valid"][0, part] for run in runs[spec.baseline].values()])
    rates = {name: [last_rate(run, chosen_on) for run in found[name].values()] for name in spec.configs}
    return Headroom(
        name=spec.name,
        preset=spec.preset,
        stages=spec.stages,
        seeds=spec.seeds,
        judged="tuning set" if comparison.preset.validation.seed == TUNING_SEED else "validation set",
        instances=start.shape[1],
        best_word=comparison.preset.space.best,
        start=rate(start),
        arms=tuple(arm_result(name, of_seeds, baseline) for name, of_seeds in runs.items()),
        chosen={name: float(np.mean(of_seeds)) for name, of_seeds in rates.items()},
        chains=dict(chains) if spec.look_ahead else {},
    )


def last_rate(run: Finished, part: slice = CHOSEN_ON) -> float:
    """Valid rate of the last stage, where configs are chosen if not said otherwise."""
    return float(run.outcomes["valid"][-1, part].mean())


def _judged(run: Finished, part: slice) -> Finished:
    return replace(run, judged={name: run.outcomes[name][-1, part] for name in RATES})


def write_results(directory: Path, results: Headroom) -> None:
    """Write `headroom.json`, the page and its picture."""
    gains = {arm.label: gain for arm in results.arms if (gain := results.gain(arm))}
    effects = {f"{results.preset}, {len(results.seeds)} seeds": {results.arms[0].label: gains}}
    write_json(directory / RESULTS, results)
    write_png(directory / FIGURE, effects_figure(effects, f"the {results.judged}"))
    write_text(directory / PAGE, markdown(results))


def markdown(results: Headroom) -> str:
    """The table, the chains of the look-ahead, and whether the preset is fit for a study."""
    first, words = results.arms[0].label, rate_names(results.best_word).values()
    compared = (f"{word} minus `{first}`" for word in words)
    headings = ["config", *(f"{word}, %" for word in words), *compared, MINUTES]
    lines = [
        f"# Headroom of `{results.preset}`",
        "",
        caption(results),
        "",
        markdown_table(headings, [_row(results, arm) for arm in results.arms]),
        "",
        *(f"- {chain}" for chain in look_ahead_lines(results)),
        *([""] if results.chains else []),
        verdict(results),
        "",
        f"![Valid rate of each config minus that of {first}, with its interval]({FIGURE})",
        "",
    ]
    return "\n".join(lines)


def caption(results: Headroom) -> str:
    """What the numbers of the table are."""
    words = list(rate_names(results.best_word).values())
    judged = f"{results.instances} instances of the {results.judged}"
    half = "; configs were chosen on the other half" if results.look_ahead else ""
    return (
        f"{count(results.stages, 'stage')}, seeds {', '.join(map(str, results.seeds))}. "
        f"{listed(words).capitalize()} rate of the final policy on {judged}{half}. "
        f"The base policy solves {percent(results.start.value)}. Brackets are 95 % intervals, over seeds and "
        "instances."
    )


def minutes(arm: ArmResult) -> str:
    """That the optimizer steps of a curriculum took, mean over seeds."""
    return f"{(arm.training_seconds or 0) / 60:.1f}"


def look_ahead_lines(results: Headroom) -> list[str]:
    """The chains of the look-ahead, one a seed."""
    return [f"Look-ahead, seed {seed}: {', '.join(chain)}" for seed, chain in results.chains.items()]


def verdict(results: Headroom) -> str:
    """Whether there is something to design, in words."""
    best, ahead = results.best, results.look_ahead
    if ahead is None:
        chance = f"The highest of {len(results.arms)} is too high on average."
        return f"The best arm, `{best.label}`, {_beats(results, best)}. {chance}"
    changed = "changed its config over the stages"
    chose = changed if results.changes else "chose the same config at every stage"
    needed = (
        f"a gain of {FIT:g} times the smallest visible difference, and a look-ahead that changes its config"
    )
    no = f"not fit for a study, which takes {needed}"
    fit = f"fit for a study: there is {needed}" if results.fit else no
    constant = f"The best constant config, `{best.label}`, {_beats(results, best)}"
    found = f"{constant}; the look-ahead {_beats(results, ahead)}."
    return f"{found} The look-ahead {chose}. The preset is {fit}."


def _row(results: Headroom, arm: ArmResult) -> tuple[str, ...]:
    rates, to_first = rate_names(results.best_word), arm.against.get(results.arms[0].label)
    ends = (getattr(arm, name) for name in rates)
    gains = (getattr(to_first, name, None) for name in rates)
    return f"`{arm.label}`", *map(narrow, (*ends, *gains)), minutes(arm)


def _beats(results: Headroom, arm: ArmResult) -> str:
    gain = results.gain(arm)
    if gain is None:
        return "is the one that the others are compared with"
    visible = f"{100 * gain.detectable:.1f} could be seen"
    return f"ends {narrow(gain)} points from `{results.arms[0].label}`, where {visible}"
