"""The charts of comparisons, and what all charts are drawn with: colours, axes, rates with intervals, files.

Pictures are PNG on white, readable when 900 pixels wide; those of the report are in
`infra.analysis.report.charts`.
"""

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from envgen.breakdown import Rate
from infra.analysis.formats import difference_text
from infra.analysis.results import ArmResult, ComparisonResults
from infra.analysis.statistics import Effect

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID = "#1c2126", "#5d6872", "#dde3e8"
RATE_COLOURS = {"valid": "#0072b2", "optimal": "#009e73"}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56a0d8", "#6a51a3", "#1c2126")
"""Near those of Okabe and Ito, which stay apart for colour-blind readers."""
DASHES = ("-", (0, (5, 2)), (0, (1.2, 1.6)))
MARKERS = ("o", "s", "^", "D", "v", "P")
_FAINT, _HIDDEN = "#c3ccd4", "#ffffff"
_POINT: dict[str, Any] = {"marker": "o", "markersize": 7, "color": COLOURS[0], "markeredgewidth": 1.6}
_COLUMNS = 5
"""Panels of single arms in a row."""


def new_figure(width: float, height: float) -> "Figure":
    """A figure on white, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def strip_axes(axes: "Axes", grid: str = "") -> None:
    """Leave only the numbers along the axes, and the grid behind the data: along x, y or both, or none."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelcolor=MUTED)
    axes.set_axisbelow(True)
    if grid:
        axes.grid(axis=grid, color=GRID, linewidth=1)  # pyright: ignore[reportArgumentType]


def draw_rates(
    axes: "Axes", places: Any, rates: Sequence[Rate], name: str, scale: int = 1, **options: Any
) -> None:
    """The rates `name` (valid, optimal) at some places as a line of points with intervals, times a scale."""
    values = scale * np.array([rate.value for rate in rates])
    reach = np.abs(scale * np.array([[rate.low, rate.high] for rate in rates]).T - values)
    marks = {"color": RATE_COLOURS[name], "linewidth": 2, "marker": "o", "markersize": 5, "elinewidth": 1.2}
    axes.errorbar(np.array(places), values, reach, **marks | options)


def svg(figure: "Figure", salt: str, settings: Mapping[str, Any] | None = None, **options: Any) -> str:
    """A figure as SVG, the same text each time; `salt` keeps the ids of several in one page apart."""
    import matplotlib

    buffer, settings = io.StringIO(), {"svg.fonttype": "none", "svg.hashsalt": salt} | dict(settings or {})
    with matplotlib.rc_context(settings):  # pyright: ignore[reportArgumentType]
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=metadata, **options)
    return buffer.getvalue()


def curves(results: ComparisonResults) -> str:
    """Return the learning curves as an SVG element; empty if nothing has finished."""
    arms = [arm for arm in results.arms if arm.valid_curve]
    return _element(svg(curves_figure(arms, results.instances), "comparison")) if arms else ""


def differences(results: ComparisonResults) -> str:
    """Return the differences of the final valid rate to each baseline as an SVG element; empty without a
    baseline."""
    against = results.against
    return _element(svg(effects_figure(against, "the validation set"), "differences")) if against else ""


def _element(drawn: str) -> str:
    return drawn[drawn.index("<svg") :]


def curves_figure(arms: Sequence[ArmResult], instances: int) -> "Figure":
    """Draw the valid rate on the validation set over the stages.

    With several arms, each also has a panel of its own with its interval.
    """
    many = len(arms) > 1
    columns = min(len(arms), _COLUMNS)
    rows = math.ceil(len(arms) / columns) if many else 0
    figure = new_figure(10, 4.6 + 2.1 * rows)
    grid = figure.add_gridspec(1 + many, 1, height_ratios=[4.6, 2.1 * rows][: 1 + many])
    above = grid[0].subgridspec(1, 2, width_ratios=[4, 1])
    main, beside = (figure.add_subplot(above[place]) for place in (0, 1))
    rates = [arm.valid_curve for arm in arms]
    limits, stages = _limits(rates), max(map(len, rates)) - 1
    for index, arm in enumerate(arms):
        _curve(main, rates[index], index, label=_with_seeds(arm), band=not many)
    _stage_axis(main, [f"stage {stage}" for stage in range(stages)], limits)
    main.set_ylabel("valid answers, % of the validation set", color=MUTED)
    beside.set_axis_off()
    words = {"frameon": False, "fontsize": 9.5, "handlelength": 3.2, "labelcolor": INK}
    beside.legend(*main.get_legend_handles_labels(), loc="center left", borderaxespad=0, **words)
    over = sampled(arms)
    mean = "mean over seeds" if many else f"mean over seeds, 95 % intervals over {over}"
    main.set_title(f"Valid rate on {instances} instances, {mean}", loc="left", color=INK, fontsize=12)
    panels = grid[-1].subgridspec(max(rows, 1), columns)
    for index, arm in enumerate(arms if many else []):
        axes = figure.add_subplot(panels[index // columns, index % columns])
        for other in rates:
            axes.plot(100 * np.array([rate.value for rate in other]), color=_FAINT, linewidth=1)
        _curve(axes, rates[index], index, label=None, band=True)
        _stage_axis(axes, [str(stage) for stage in range(stages)], limits)
        axes.set_title(_with_seeds(arm), loc="left", color=INK, fontsize=9)
        axes.tick_params(labelsize=8.5)
    if many:
        note = f"Below: each with its 95 % interval over {over}, the others in grey; stages along the axis."
        figure.supxlabel(note, x=0.012, ha="left", fontsize=9.5, color=MUTED)
    return figure


def sampled(arms: Sequence[ArmResult]) -> str:
    """What intervals take for samples: with one seed an arm, instances alone."""
    return "seeds and instances" if any(len(arm.seeds) > 1 for arm in arms) else "instances"


def _curve(axes: "Axes", curve: Sequence[Rate], index: int, *, label: str | None, band: bool) -> None:
    colour = COLOURS[index % len(COLOURS)]
    values, low, high = 100 * np.array([(rate.value, rate.low, rate.high) for rate in curve]).T
    if band:
        axes.fill_between(np.arange(len(low)), low, high, color=colour, alpha=0.2, linewidth=0)
        for end in (low, high):
            axes.plot(np.arange(len(end)), end, color=colour, linewidth=0.8, alpha=0.7)
    dash, marker = DASHES[index // len(COLOURS) % len(DASHES)], MARKERS[index % len(MARKERS)]
    marks = {"color": colour, "linewidth": 2, "marker": marker, "markersize": 5, "linestyle": dash}
    axes.plot(np.arange(len(values)), values, label=label, **marks)


def _with_seeds(arm: ArmResult) -> str:
    return f"{arm.label} ({len(arm.seeds)} seed{'' if len(arm.seeds) == 1 else 's'})"


def _stage_axis(axes: "Axes", stages: list[str], limits: tuple[float, float]) -> None:
    names = ["start", *stages]
    strip_axes(axes, "y")
    every = 1 if len(names) <= 9 else math.ceil(len(names) / 8)
    axes.set_xticks(range(0, len(names), every), names[::every])
    axes.set_xlim(-0.15, len(names) - 0.85)
    axes.set_ylim(*limits)


def _limits(curves: Sequence[Sequence[Rate]]) -> tuple[float, float]:
    """Ends of the axis in %: round numbers around all intervals."""
    rates = [rate for curve in curves for rate in curve]
    low, high = 100 * min(rate.low for rate in rates), 100 * max(rate.high for rate in rates)
    return max(0.0, 5 * math.floor((low - 1) / 5)), min(100.0, 5 * math.ceil((high + 1) / 5))


def effects_figure(against: Mapping[str, Mapping[str, Effect]], judged: str) -> "Figure":
    """Draw differences of the final valid rate: a panel a baseline, a row an arm.

    `against`: baseline -> arm -> difference.
    """
    heights = [len(effects) + 0.4 for effects in against.values()]
    figure = new_figure(5.6, 1.3 + sum(0.34 * height + 0.42 for height in heights))
    panels = figure.subplots(len(against), 1, squeeze=False, height_ratios=heights)[:, 0]
    effects = [effect for of_base in against.values() for effect in of_base.values()]
    # A point at least, where nothing differs.
    reach = 1.05 * max(0.01, *(abs(end) for effect in effects for end in (effect.low, effect.high)))
    for axes, (base, of_base) in zip(panels, against.items(), strict=True):
        _forest(axes, of_base, 100 * reach)
        axes.set_title(f"minus {base}", loc="left", color=INK, fontsize=11)
    panels[-1].set_xlabel(f"points of the final valid rate on {judged}", color=MUTED)
    _explain(figure)
    return figure


def _forest(axes: "Axes", effects: Mapping[str, Effect], reach: float) -> None:
    """A row for each effect, in points; `reach` ends the axis on both sides."""
    beside = {"transform": axes.get_yaxis_transform(), "va": "center", "color": INK, "fontsize": 9}
    for row, found in enumerate(effects.values()):
        fill = {"markerfacecolor": COLOURS[0] if found.sign else _HIDDEN, "elinewidth": 1.8}
        value, low, high = (100 * end for end in (found.value, found.low, found.high))
        axes.errorbar(value, row, xerr=[[value - low], [high - value]], **_POINT, **fill)
        axes.text(1.03, row, difference_text(found, ""), **beside)
    axes.axvline(0, color=INK, linewidth=1)
    strip_axes(axes, "x")
    axes.set_yticks(range(len(effects)), list(effects), color=INK)
    axes.set_ylim(len(effects) - 0.5, -0.5)
    axes.set_xlim(-reach, reach)


def _explain(figure: "Figure") -> None:
    from matplotlib.lines import Line2D

    handles = {
        "95 % interval, unadjusted, misses zero": Line2D([], [], **_POINT),
        "holds zero": Line2D([], [], markerfacecolor=_HIDDEN, **_POINT),
    }
    words = {"frameon": False, "fontsize": 9.5, "labelcolor": INK}
    figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=1, **words)
