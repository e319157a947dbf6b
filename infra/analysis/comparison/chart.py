"""The learning curves of a comparison as a figure: `comparison.png` and `comparison.svg`."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from envgen.files import atomic_path, write_text
from infra.analysis.comparison.results import ComparisonResults, EngineerResult
from infra.analysis.report.charts import GRID, INK, MUTED, strip_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56a0d8", "#6a51a3", "#1c2126")
"""Near those of Okabe and Ito, which stay apart for colour-blind readers."""
DASHES = ("-", (0, (5, 2)), (0, (1.2, 1.6)))
MARKERS = ("o", "s", "^", "D", "v", "P")
FAINT = "#c3ccd4"
_TOGETHER = 3
"""Up to so many engineer variants have their bands in one panel; more get a panel each below."""
_COLUMNS = 5


def write_chart(directory: Path, results: ComparisonResults) -> str:
    """Write both files and return the SVG element; empty where nothing has finished yet."""
    shown = [engineer for engineer in results.engineers if engineer.valid_curve]
    if not shown:
        return ""
    figure = curves_figure(shown, results.instances)
    with atomic_path(directory / "comparison.png") as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Software": None})
    svg = _svg(figure)
    write_text(directory / "comparison.svg", svg)
    return svg[svg.index("<svg") :]


def curves_figure(shown: Sequence[EngineerResult], instances: int) -> "Figure":
    """Learning curves of the valid rate on a validation set of so many instances; more than three engineer variants get a panel each below."""
    from matplotlib.figure import Figure

    many = len(shown) > _TOGETHER
    rows = math.ceil(len(shown) / _COLUMNS) if many else 0
    figure = Figure(figsize=(10, 4.6 + 2.1 * rows), layout="constrained", facecolor="white")
    grid = figure.add_gridspec(1 + rows, _COLUMNS, height_ratios=[2.2] + [1] * rows)
    limits = _limits(shown)
    names = ["start", *(f"stage {stage}" for stage in range(max(len(engineer.valid_curve) for engineer in shown) - 1))]
    main = figure.add_subplot(grid[0, : _COLUMNS - 1])
    for index, engineer in enumerate(shown):
        _line(main, engineer, index, label=f"{engineer.label} ({_seeds(engineer)})", band=not many)
    _dress(main, names, limits)
    main.set_ylabel("valid plans, % of the validation set", color=MUTED)
    beside = figure.add_subplot(grid[0, _COLUMNS - 1])
    beside.set_axis_off()
    beside.legend(*main.get_legend_handles_labels(), loc="center left", borderaxespad=0, frameon=False, fontsize=9.5, handlelength=3.2, labelcolor=INK)
    what = "mean over seeds" if many else "mean over seeds, 95 % intervals over seeds and instances"
    main.set_title(f"Valid rate on {instances} instances, {what}", loc="left", color=INK, fontsize=12)
    for index, engineer in enumerate(shown if many else []):
        axes = figure.add_subplot(grid[1 + index // _COLUMNS, index % _COLUMNS])
        for other in shown:
            axes.plot(*_points(other), color=FAINT, linewidth=1)
        _line(axes, engineer, index, label=None, band=True)
        _dress(axes, ["start", *(name.removeprefix("stage ") for name in names[1:])], limits)
        axes.set_title(f"{engineer.label} ({_seeds(engineer)})", loc="left", color=INK, fontsize=8.5)
        axes.tick_params(labelsize=8.5)
    if many:
        note = "Below: each engineer variant with its 95 % interval over seeds and instances, among the others in grey; stages along the axis."
        figure.supxlabel(note, x=0.012, ha="left", fontsize=9.5, color=MUTED)
    return figure


def _line(axes: "Axes", engineer: EngineerResult, index: int, *, label: str | None, band: bool) -> None:
    colour, (stages, values) = COLOURS[index % len(COLOURS)], _points(engineer)
    marker = MARKERS[index % len(MARKERS)]
    if band:
        low, high = (np.array([100 * getattr(rate, end) for rate in engineer.valid_curve]) for end in ("low", "high"))
        axes.fill_between(stages, low, high, color=colour, alpha=0.15, linewidth=0)
    dash = DASHES[index // len(COLOURS) % len(DASHES)]
    axes.plot(stages, values, color=colour, linewidth=2, marker=marker, markersize=5, linestyle=dash, label=label)


def _points(engineer: EngineerResult) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(len(engineer.valid_curve)), np.array([100 * rate.value for rate in engineer.valid_curve])


def _dress(axes: "Axes", names: list[str], limits: tuple[float, float]) -> None:
    strip_axes(axes)
    axes.grid(axis="y", color=GRID, linewidth=1)
    every = 1 if len(names) <= 9 else math.ceil(len(names) / 8)
    axes.set_xticks(range(0, len(names), every), names[::every])
    axes.set_xlim(-0.15, len(names) - 0.85)
    axes.set_ylim(*limits)


def _limits(shown: Sequence[EngineerResult]) -> tuple[float, float]:
    """Ends of the axis in %: round numbers around all intervals."""
    rates = [rate for engineer in shown for rate in engineer.valid_curve]
    low, high = 100 * min(rate.low for rate in rates), 100 * max(rate.high for rate in rates)
    return max(0.0, 5 * math.floor((low - 1) / 5)), min(100.0, 5 * math.ceil((high + 1) / 5))


def _seeds(engineer: EngineerResult) -> str:
    return f"{len(engineer.seeds)} seed{'' if len(engineer.seeds) == 1 else 's'}"


def _svg(figure: "Figure") -> str:
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "comparison"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return buffer.getvalue()
