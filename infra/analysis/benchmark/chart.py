"""Rates by group of instances as a figure: `benchmark.png`."""

from pathlib import Path
from typing import TYPE_CHECKING

from envgen.suites import Benchmark
from infra.analysis.benchmark.results import BenchmarkResults
from infra.analysis.charts import INK, MUTED, RATE_COLOURS, draw_rates, new_figure, strip_axes, write_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHART_FILE = "benchmark.png"
_SIDE = 0.09
"""Valid and optimal points stand this far left and right of their group."""


def write_chart(directory: Path, results: BenchmarkResults) -> bytes:
    """Write the figure, a panel for each column of the last of `Benchmark.tables`, and return it as PNG."""
    columns = results.labels(results.benchmark.tables[-1][1])
    figure = new_figure(3 + 3 * len(columns), 4)
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    handles = {}
    for axes, column in zip(panels, columns, strict=True):
        _panel(axes, results, column)
        found, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, found, strict=True))
    panels[0].set_ylabel("% of the instances", color=MUTED)
    panels[0].set_ylim(bottom=0)
    words = {"frameon": False, "fontsize": 9.5, "labelcolor": INK}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2, **words)
    model = results.asked.model if len(results.asked.model) <= 60 else f"...{results.asked.model[-57:]}"
    # A model's name must not be read as a formula.
    title = f"{model}, {results.overall.n:,} instances, 95 % intervals".replace("$", r"\$")
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=12)
    return write_png(directory / CHART_FILE, figure, dpi=130)


def _panel(axes: "Axes", results: BenchmarkResults, column: str) -> None:
    """The rates of one column, and the published ones where there are any."""
    benchmark = results.benchmark
    kind, of = benchmark.tables[-1]
    rows = results.labels(kind)
    scores = {
        place: score for place, row in enumerate(rows) if (score := results.score({kind: row, of: column}))
    }
    for name, side in (("valid", -_SIDE), ("optimal", _SIDE)):
        rates = [getattr(score, f"{name}_rate") for score in scores.values()]
        draw_rates(axes, [place + side for place in scores], rates, name, 100, label=name)
    if column == benchmark.curve.column:
        _published(axes, benchmark, rows)
    strip_axes(axes, "y")
    axes.set_xticks(range(len(rows)), rows, fontsize=8)
    axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.set_xlabel(kind, color=MUTED)
    number = f"{sum(score.n for score in scores.values()):,} instances"
    axes.set_title(f"{column}, {number}", loc="left", color=MUTED, fontsize=10.5)


def _published(axes: "Axes", benchmark: Benchmark, rows: list[str]) -> None:
    shown = {rows.index(row): rates for row, rates in benchmark.curve.rates.items() if row in rows}
    for number, name in enumerate(("valid", "optimal")):
        label = f"{name}, {benchmark.curve.whose} ({benchmark.mark})"
        marks = {"marker": "D", "markersize": 5, "markerfacecolor": "white"}
        line = {"color": RATE_COLOURS[name], "linewidth": 1, "linestyle": (0, (1.5, 2)), "label": label}
        axes.plot(list(shown), [rates[number] for rates in shown.values()], **line, **marks)
