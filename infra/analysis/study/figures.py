"""The pictures of a study: PNG on white, readable when 900 pixels wide."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envgen.files import atomic_path
from infra.analysis.comparison.chart import COLOURS, GRID, INK, MARKERS, MUTED, curves_figure
from infra.analysis.comparison.pilot_gain import PilotPair
from infra.analysis.comparison.results import BASELINES
from infra.analysis.report.charts import strip_axes
from infra.analysis.report.text import count, points, points_interval, signed
from infra.analysis.study.conduct import PilotFinding
from infra.analysis.study.effects import Effect
from infra.analysis.study.findings import RoundFindings
from infra.analysis.study.heat import budget_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EFFECTS = "effects.png"
_BAND = "#e6ebef"
_SHOWN, _HIDDEN = COLOURS[0], "#ffffff"
SCORES = {"advantage": "mean |advantage| in the pilot", "mixed": "share of pilot groups with mixed rewards"}
"""Score of a pilot -> its axis."""


def write_figures(folder: Path, rounds: Sequence[RoundFindings]) -> None:
    """Write all pictures of a study's rounds into a folder."""
    _write(folder / EFFECTS, effects_figure(rounds))
    for one in rounds:
        _write(folder / f"curves-round-{one.number}.png", curves_figure([arm.curve for arm in one.arms], one.instances["validation"]))
        _write(folder / f"budget-round-{one.number}.png", budget_figure(one))
        if one.pilot.pairs:
            _write(folder / f"pilot-round-{one.number}.png", pilot_figure(one.pilot))


def effects_figure(rounds: Sequence[RoundFindings]) -> "Figure":
    """Differences of the final valid rate on the test to each baseline: a row of panels a round, a column a baseline, a line an arm."""
    from matplotlib.figure import Figure

    lines = [max(len(_against(one, base)) for base in BASELINES) for one in rounds]
    height = 1.3 + 0.42 * sum(lines) + 0.6 * len(lines)
    figure = Figure(figsize=(10, height), facecolor="white")
    figure.set_layout_engine("constrained", w_pad=0.12)
    panels = figure.subplots(len(rounds), len(BASELINES), squeeze=False, height_ratios=[count + 0.4 for count in lines])
    ends = [max(abs(e.low), abs(e.high), e.detectable) for one in rounds for base in BASELINES for e in _against(one, base).values()]
    reach = 1.05 * max(0.01, *ends)  # a point at least, where nothing differs
    for row, one in enumerate(rounds):
        for column, base in enumerate(BASELINES):
            _forest(panels[row, column], _against(one, base), lines[row], 100 * reach)
            panels[row, column].set_title(f"Round {one.number}, minus {base}", loc="left", color=INK, fontsize=11)
    for axes in panels[-1]:
        axes.set_xlabel("points of the final valid rate on the test", color=MUTED)
    _explain(figure)
    return figure


def _against(one: RoundFindings, base: str) -> dict[str, Effect]:
    return {arm.arm: arm.against[base] for arm in one.arms if base in arm.against}


def _forest(axes: "Axes", effects: dict[str, Effect], rows: int, reach: float) -> None:
    """A row for each effect, in points; `reach` ends the axis on both sides."""
    for row, found in enumerate(effects.values()):
        visible = 100 * found.detectable
        axes.barh(row, 2 * visible, left=-visible, height=0.78, color=_BAND, linewidth=0)
        fill = _SHOWN if found.sign else _HIDDEN
        marks = {"marker": "o", "markersize": 7, "markerfacecolor": fill, "markeredgewidth": 1.6, "elinewidth": 1.8}
        value, low, high = (100 * end for end in (found.value, found.low, found.high))
        axes.errorbar(value, row, xerr=[[value - low], [high - value]], color=_SHOWN, **marks)
        words = f"{points(found.value)} {points_interval(found)}"
        axes.text(1.03, row, words, transform=axes.get_yaxis_transform(), va="center", color=INK, fontsize=9)
    axes.axvline(0, color=INK, linewidth=1)
    strip_axes(axes)
    axes.grid(axis="x", color=GRID, linewidth=1)
    axes.set_yticks(range(len(effects)), list(effects), color=INK)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_xlim(-reach, reach)


def _explain(figure: "Figure") -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    point = {"marker": "o", "markersize": 7, "color": _SHOWN, "markeredgewidth": 1.6}
    handles = {
        "95 % interval, unadjusted, misses zero": Line2D([], [], **point),
        "holds zero": Line2D([], [], markerfacecolor=_HIDDEN, **point),
        "a true difference this small would probably be missed": Patch(color=_BAND),
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=9.5, labelcolor=INK)


def pilot_figure(pilot: PilotFinding) -> "Figure":
    """What the pilot said of a config against what the stage then gained, coloured by stage."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.4), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(SCORES), sharey=True)
    less = ", less the mean of its seed" if pilot.within_seeds else ""
    for axes, (score, name) in zip(panels, SCORES.items(), strict=True):
        for index, stage in enumerate(pilot.by_stage):
            _scatter(axes, [pair for pair in pilot.pairs if pair.stage == stage], score, index, _rho(pilot, stage, score))
        axes.axhline(0, color=INK, linewidth=1)
        strip_axes(axes)
        axes.grid(color=GRID, linewidth=1)
        axes.set_xlabel(name + less, color=MUTED)
        axes.legend(loc="best", frameon=True, framealpha=0.85, edgecolor="none", fontsize=9, labelcolor=INK)
    panels[0].set_ylabel(f"gain of the stage{less}, points", color=MUTED)
    figure.suptitle(f"Pilot score and gain of the stage that followed, {count(len(pilot.pairs), 'stage')}", x=0.01, ha="left", color=INK, fontsize=12)
    return figure


def _scatter(axes: "Axes", pairs: list[PilotPair], score: str, index: int, rho: str) -> None:
    marks = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)], "alpha": 0.75, "s": 34, "linewidth": 0}
    label = f"stage {pairs[0].stage}{rho}"
    axes.scatter([getattr(pair, score) for pair in pairs], [100 * pair.gain for pair in pairs], label=label, **marks)


def _rho(pilot: PilotFinding, stage: int, score: str) -> str:
    found = [one.value for one in pilot.by_stage[stage] if one.score == score]
    return f", ρ = {signed(found[0], 2)}" if found and math.isfinite(found[0]) else ""


def _write(path: Path, figure: "Figure") -> None:
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Software": None})
