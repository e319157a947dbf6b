"""Rates by map size as a figure: `benchmark.png`."""

from pathlib import Path
from typing import TYPE_CHECKING

from infra.analysis.benchmark.published import ENGINEER_AGENTS, ENGINEER_BY_SIZE, MARK
from infra.analysis.benchmark.results import BenchmarkResults
from infra.analysis.charts import INK, MUTED, RATE_COLOURS, draw_rates, new_figure, strip_axes, write_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHART_FILE = "benchmark.png"
_SIDE = 0.09
"""Valid and optimal points stand this far left and right of their map size."""


def write_chart(directory: Path, results: BenchmarkResults) -> bytes:
    """Write the figure, a panel for each number of agents with 95 % intervals, and return it as PNG."""
    figure = new_figure(3 + 3 * len(results.agents), 4)
    panels = figure.subplots(1, len(results.agents), sharey=True, squeeze=False)[0]
    handles = {}
    for axes, agents in zip(panels, results.agents, strict=True):
        _panel(axes, results, agents)
        found, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, found, strict=True))
    panels[0].set_ylabel("% of the instances", color=MUTED)
    panels[0].set_ylim(bottom=0)
    words = {"frameon": False, "fontsize": 9.5, "labelcolor": INK}
    columns = 2 if ENGINEER_AGENTS in results.agents else 4
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, **words)
    model = results.asked.model if len(results.asked.model) <= 60 else f"...{results.asked.model[-57:]}"
    # A model's name must not be read as a formula.
    title = f"{model}, {results.overall.n:,} instances, 95 % intervals".replace("$", r"\$")
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=12)
    return write_png(directory / CHART_FILE, figure, dpi=130)


def _panel(axes: "Axes", results: BenchmarkResults, agents: int) -> None:
    """The rates of boards with so many agents, and the published ones where there are any."""
    scores = {size: score for size in results.sizes if (score := results.score(agents=agents, size=size))}
    for name, side in (("valid", -_SIDE), ("optimal", _SIDE)):
        rates = [getattr(score, f"{name}_rate") for score in scores.values()]
        draw_rates(axes, [size + side for size in scores], rates, name, 100, label=name)
    if agents == ENGINEER_AGENTS:
        _published(axes)
    strip_axes(axes, "y")
    axes.set_xticks(results.sizes, list(map(str, results.sizes)))
    axes.set_xlim(min(results.sizes) - 0.5, max(results.sizes) + 0.5)
    axes.set_xlabel("map size", color=MUTED)
    number = f"{sum(score.n for score in scores.values()):,} instances"
    title = f"{agents} agent{'' if agents == 1 else 's'}, {number}"
    axes.set_title(title, loc="left", color=MUTED, fontsize=10.5)


def _published(axes: "Axes") -> None:
    for name, rates in zip(("valid", "optimal"), zip(*ENGINEER_BY_SIZE.values(), strict=True), strict=True):
        label = f"{name}, Qwen3-4B + GRPO + engineer ({MARK})"
        marks = {"marker": "D", "markersize": 5, "markerfacecolor": "white"}
        line = {"color": RATE_COLOURS[name], "linewidth": 1, "linestyle": (0, (1.5, 2)), "label": label}
        axes.plot(list(ENGINEER_BY_SIZE), rates, **line, **marks)
