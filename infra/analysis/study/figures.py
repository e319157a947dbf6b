"""The pictures of a study: effects, learning curves, budgets and pilots."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from envgen.family import TaskFamily
from envgen.suites import test_suite_of
from infra.analysis.charts import (
    COLOURS,
    INK,
    MARKERS,
    MUTED,
    curves_figure,
    effects_figure,
    new_figure,
    strip_axes,
    write_png,
)
from infra.analysis.formats import count, signed
from infra.analysis.results import RATES, RateName
from infra.analysis.study.engineers import Correlations, StageConfig
from infra.analysis.study.findings import RoundFindings

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

EFFECTS = "effects.png"
CURVES: dict[RateName, str] = {"valid": "curves", "optimal": "optimal"}
"""Rate -> what the name of its picture begins with."""
_HEAT_STAGES, _ALL = 24, "all"
"""Columns of numbers that a row of heat maps has room for."""
_MOST_PANELS = 4
_HEAT_COLOURS = "cividis"
"""Made for colour-blind readers (Nuñez, Anderton and Renslow 2018, PLOS ONE 13:e0199239)."""
_DARK = 0.6
"""Up to this share of the scale, numbers on a heat map are white."""
_PILOT_AXES = {
    "advantage": "mean |advantage| in the pilot",
    "mixed": "share of pilot groups with mixed rewards",
}


def write_figures(folder: Path, rounds: Sequence[RoundFindings], family: TaskFamily) -> None:
    """Write all pictures of a study's rounds into a folder."""
    write_png(folder / EFFECTS, effects_figure({f"Round {one.number}": one.against for one in rounds}))
    for one in rounds:
        results, instances = [arm.result for arm in one.arms], one.instances["validation"]
        for rate in RATES:
            curves = curves_figure(results, instances, "plans", rate=rate)
            write_png(folder / f"{CURVES[rate]}-round-{one.number}.png", curves)
        configs = {arm.result.label: arm.conduct.configs for arm in one.arms if arm.conduct}
        write_png(folder / f"budget-round-{one.number}.png", budget_figure(configs, family))
        if one.pilot.stages:
            write_png(folder / f"pilot-round-{one.number}.png", pilot_figure(one.pilot))


def pilot_figure(pilot: Correlations) -> "Figure":
    """What the pilot said of a config against what the stage then gained, coloured by stage."""
    figure = new_figure(10, 4.4)
    panels = figure.subplots(1, len(_PILOT_AXES), sharey=True)
    less = ", less the mean of its seed" if pilot.within_seeds else ""
    for axes, (score, name) in zip(panels, _PILOT_AXES.items(), strict=True):
        for index, (stage, found) in enumerate(pilot.by_stage.items()):
            rho = "".join(f", ρ = {signed(one.value, 2)}" for one in found if one.score == score)
            shown = [one for one in pilot.stages if one.stage == stage]
            marks = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}
            gains = [100 * one.gain for one in shown]
            scores = [one.scores[score] for one in shown]
            axes.scatter(scores, gains, s=34, linewidth=0, alpha=0.75, label=f"stage {stage}{rho}", **marks)
        axes.axhline(0, color=INK, linewidth=1)
        strip_axes(axes, "both")
        axes.set_xlabel(name + less, color=MUTED)
        axes.legend(loc="best", frameon=True, framealpha=0.85, edgecolor="none", fontsize=9, labelcolor=INK)
    panels[0].set_ylabel(f"gain of the stage{less}, points", color=MUTED)
    title = f"Pilot score and gain of the stage that followed, {count(len(pilot.stages), 'stage')}"
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=12)
    return figure


def budget_figure(arms: Mapping[str, Sequence[StageConfig]], family: TaskFamily) -> "Figure":
    """Share of the data (above) and the followed knob (below) by stratum in %, a panel an arm, a column a
    stage."""
    named = {name for configs in arms.values() for config in configs for name in config.shares}
    space, (knob, what) = family.space, test_suite_of(family).followed
    strata = [name for name in space.names if name in named]
    names = [re.sub(r"(?<=\d)x(?=\d)", "×", space.label(name)) for name in strata]
    rows = math.ceil(len(arms) / _panels(arms))
    figure = new_figure(10, 2 * (0.7 + rows * (0.8 + 0.28 * (len(strata) + 0.5))))
    above, below = figure.subfigures(2, 1, squeeze=False, hspace=0.04).flat
    _heat(above, arms, names, lambda config: [config.shares.get(name, 0.0) for name in strata])
    shares = f"Share of the training data by {space.noun}, %"
    above.suptitle(shares, x=0.01, ha="left", color=INK, fontsize=11)
    _heat(below, arms, [*names, _ALL], lambda config: [*map(config.followed.get, strata), config.means[knob]])
    note = f"{what.capitalize()} by {space.noun}, %; '{_ALL}' is over all the data; no number: no data there"
    below.suptitle(note, x=0.01, ha="left", color=INK, fontsize=11)
    return figure


def _panels(arms: Mapping[str, Sequence[StageConfig]]) -> int:
    """How many heat maps fit side by side."""
    return min(_MOST_PANELS, max(1, _HEAT_STAGES // max(map(len, arms.values()))))


def _heat(
    figure: "SubFigure",
    arms: Mapping[str, Sequence[StageConfig]],
    names: list[str],
    values: Callable[[StageConfig], Sequence[float | None]],
) -> None:
    """A heat map an arm: a row for each of `names`, a column a stage; None has no number."""
    tables = [
        100 * np.array([values(config) for config in configs], dtype=float).T for configs in arms.values()
    ]
    top = max(np.nanmax(table) for table in tables)
    side_by_side = _panels(arms)
    panels = figure.subplots(math.ceil(len(arms) / side_by_side), side_by_side, squeeze=False)
    for axes in panels.flat[len(arms) :]:
        axes.set_axis_off()
    for index, (axes, arm, table) in enumerate(zip(panels.flat, arms, tables, strict=False)):
        axes.imshow(table, cmap=_HEAT_COLOURS, vmin=0, vmax=top, aspect="auto")
        strip_axes(axes)
        axes.tick_params(labelsize=8.5)
        for (row, column), value in np.ndenumerate(table):
            if np.isfinite(value):
                words = {"color": "white" if value <= _DARK * top else INK, "fontsize": 9}
                axes.text(column, row, f"{value:.0f}", ha="center", va="center_baseline", **words)
        axes.set_title(arm, loc="left", color=INK, fontsize=9.5)
        axes.set_yticks(range(len(names)), names if index % side_by_side == 0 else [])
        stages = range(table.shape[1])
        axes.set_xticks(stages, ["stage 0", *map(str, stages[1:])])
