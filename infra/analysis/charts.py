"""The charts of comparisons, and what all charts are drawn with: colours, axes, rates with intervals, files.

Pictures are PNG on white, readable when 900 pixels wide; those of the report are in
`infra.analysis.report.charts`, those of a study alone in `infra.analysis.study.figures`.
"""

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from envgen.breakdown import Rate
from envgen.files import atomic_path, write_text
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
_FAINT, _BAND, _HIDDEN = "#c3ccd4", "#e6ebef", "#ffffff"
_POINT: dict[str, Any] = {"marker": "o", "markersize": 7, "color": COLOURS[0], "markeredgewidth": 1.6}
_TOGETHER, _COLUMNS = 3, 5
"""Up to so many arms have their bands in one panel of learning curves.

More get a panel each below, so many a row.
"""


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


def png(figure: "Figure", dpi: int) -> bytes:
    """A figure as PNG, the same bytes each time."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def write_png(path: Path, figure: "Figure", dpi: int = 150) -> bytes:
    """Write a figure as PNG, and return it."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content := png(figure, dpi))
    return content


def svg(figure: "Figure", salt: str, settings: Mapping[str, Any] | None = None, **options: Any) -> str:
    """A figure as SVG, the same text each time; `salt` keeps the ids of several in one page apart."""
    import matplotlib

    buffer, settings = io.StringIO(), {"svg.fonttype": "none", "svg.hashsalt": salt} | dict(settings or {})
    with matplotlib.rc_context(settings):  # pyright: ignore[reportArgumentType]
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=metadata, **options)
    return buffer.getvalue()


def write_chart(directory: Path, results: ComparisonResults) -> str:
    """Write `comparison.png` and `.svg`, and return the SVG element; empty where nothing has finished yet."""
    shown = [arm for arm in results.arms if arm.valid_curve]
    if not shown:
        return ""
    figure = curves_figure(shown, results.instances)
    write_png(directory / "comparison.png", figure)
    drawn = svg(figure, "comparison")
    write_text(directory / "comparison.svg", drawn)
    return drawn[drawn.index("<svg") :]


def curves_figure(shown: Sequence[ArmResult], instances: int, answers: str = "answers") -> "Figure":
    """Learning curves of the valid rate on a validation set; more than three arms get a panel each below.

    `answers` is what answers are called.
    """
    many = len(shown) > _TOGETHER
    rows = math.ceil(len(shown) / _COLUMNS) if many else 0
    figure = new_figure(10, 4.6 + 2.1 * rows)
    grid = figure.add_gridspec(1 + rows, _COLUMNS, height_ratios=[2.2] + [1] * rows)
    limits, stages = _limits(shown), max(len(arm.valid_curve) for arm in shown) - 1
    main = figure.add_subplot(grid[0, : _COLUMNS - 1])
    for index, arm in enumerate(shown):
        _curve(main, arm, index, label=_with_seeds(arm), band=not many)
    _stage_axis(main, [f"stage {stage}" for stage in range(stages)], limits)
    main.set_ylabel(f"valid {answers}, % of the validation set", color=MUTED)
    beside = figure.add_subplot(grid[0, _COLUMNS - 1])
    beside.set_axis_off()
    words = {"frameon": False, "fontsize": 9.5, "handlelength": 3.2, "labelcolor": INK}
    beside.legend(*main.get_legend_handles_labels(), loc="center left", borderaxespad=0, **words)
    what = "mean over seeds" if many else "mean over seeds, 95 % intervals over seeds and instances"
    main.set_title(f"Valid rate on {instances} instances, {what}", loc="left", color=INK, fontsize=12)
    for index, arm in enumerate(shown if many else []):
        axes = figure.add_subplot(grid[1 + index // _COLUMNS, index % _COLUMNS])
        for other in shown:
            axes.plot(100 * np.array([rate.value for rate in other.valid_curve]), color=_FAINT, linewidth=1)
        _curve(axes, arm, index, label=None, band=True)
        _stage_axis(axes, [str(stage) for stage in range(stages)], limits)
        axes.set_title(_with_seeds(arm), loc="left", color=INK, fontsize=8.5)
        axes.tick_params(labelsize=8.5)
    if many:
        interval = "its 95 % interval over seeds and instances"
        note = (
            f"Below: each engineer variant with {interval}, among the others in grey; stages along the axis."
        )
        figure.supxlabel(note, x=0.012, ha="left", fontsize=9.5, color=MUTED)
    return figure


def _curve(axes: "Axes", arm: ArmResult, index: int, *, label: str | None, band: bool) -> None:
    colour = COLOURS[index % len(COLOURS)]
    values, low, high = 100 * np.array([(rate.value, rate.low, rate.high) for rate in arm.valid_curve]).T
    if band:
        axes.fill_between(np.arange(len(low)), low, high, color=colour, alpha=0.15, linewidth=0)
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


def _limits(shown: Sequence[ArmResult]) -> tuple[float, float]:
    """Ends of the axis in %: round numbers around all intervals."""
    rates = [rate for arm in shown for rate in arm.valid_curve]
    low, high = 100 * min(rate.low for rate in rates), 100 * max(rate.high for rate in rates)
    return max(0.0, 5 * math.floor((low - 1) / 5)), min(100.0, 5 * math.ceil((high + 1) / 5))


def effects_figure(
    rows: Mapping[str, Mapping[str, Mapping[str, Effect]]], judged: str = "the test"
) -> "Figure":
    """Differences of the final valid rate: a row of panels a comparison, a column a baseline, a line an arm.

    `rows`: name of a comparison -> baseline -> arm -> difference.
    """
    lines = [max(map(len, against.values())) for against in rows.values()]
    heights, columns = [number + 0.4 for number in lines], max(map(len, rows.values()))
    figure = new_figure(10, 1.3 + 0.42 * sum(lines) + 0.6 * len(lines))
    figure.set_layout_engine("constrained", w_pad=0.12)
    panels = figure.subplots(len(rows), columns, squeeze=False, height_ratios=heights)
    shown = [one for against in rows.values() for effects in against.values() for one in effects.values()]
    # A point at least, where nothing differs.
    reach = 1.05 * max(0.01, *(end for one in shown for end in (abs(one.low), abs(one.high), one.detectable)))
    for row, (name, against) in enumerate(rows.items()):
        for axes, (base, effects) in zip(panels[row], against.items(), strict=True):
            _forest(axes, effects, lines[row], 100 * reach)
            axes.set_title(f"{name}, minus {base}", loc="left", color=INK, fontsize=11)
    for axes in panels[-1]:
        axes.set_xlabel(f"points of the final valid rate on {judged}", color=MUTED)
    _explain(figure)
    return figure


def _forest(axes: "Axes", effects: Mapping[str, Effect], rows: int, reach: float) -> None:
    """A row for each effect, in points; `reach` ends the axis on both sides."""
    beside = {"transform": axes.get_yaxis_transform(), "va": "center", "color": INK, "fontsize": 9}
    for row, found in enumerate(effects.values()):
        visible = 100 * found.detectable
        axes.barh(row, 2 * visible, left=-visible, height=0.78, color=_BAND, linewidth=0)
        fill = {"markerfacecolor": COLOURS[0] if found.sign else _HIDDEN, "elinewidth": 1.8}
        value, low, high = (100 * end for end in (found.value, found.low, found.high))
        axes.errorbar(value, row, xerr=[[value - low], [high - value]], **_POINT, **fill)
        axes.text(1.03, row, difference_text(found, ""), **beside)
    axes.axvline(0, color=INK, linewidth=1)
    strip_axes(axes, "x")
    axes.set_yticks(range(len(effects)), list(effects), color=INK)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_xlim(-reach, reach)


def _explain(figure: "Figure") -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = {
        "95 % interval, unadjusted, misses zero": Line2D([], [], **_POINT),
        "holds zero": Line2D([], [], markerfacecolor=_HIDDEN, **_POINT),
        "a true difference this small would probably be missed": Patch(color=_BAND),
    }
    words = {"frameon": False, "fontsize": 9.5, "labelcolor": INK}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, **words)
