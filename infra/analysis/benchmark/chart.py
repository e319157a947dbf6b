"""Rates by map size as a figure: `benchmark.png`."""

from pathlib import Path
from typing import TYPE_CHECKING

from infra.analysis.benchmark.published import ENGINEER_AGENTS, ENGINEER_BY_SIZE, MARK
from infra.analysis.benchmark.results import BenchmarkResults, Score
from infra.analysis.charts import INK, MUTED, RATE_COLOURS, draw_rates, new_figure, strip_axes, write_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHART_FILE = "benchmark.png"
_SIDE = 0.09
"""Valid and optimal points stand this far left and right of their map size."""


def write_chart(directory: Path, results: BenchmarkResults) -> bytes:
    """Write the figure, a panel for each number of agents with 95 % intervals, and return it as PNG."""
    return write_png(directory / CHART_FILE, _figure(results), dpi=130)


def _figure(results: BenchmarkResults) -> "Figure":
    figure = new_figure(3 + 3 * len(results.agents), 4)
    panels = figure.subplots(1, len(results.agents), sharey=True, squeeze=False)[0]
    compared = results.score(agents=ENGINEER_AGENTS) is not None
    for axes, agents in zip(panels, results.agents, strict=True):
        scores = [score for size in results.sizes if (score := results.score(agents=agents, size=size))]
        for name, side in (("valid", -_SIDE), ("optimal", _SIDE)):
            places = [score.size + side for score in scores if score.size]
            draw_rates(axes, places, [score.rate(name) for score in scores], name, 100, label=name)
        if agents == ENGINEER_AGENTS:
            _published(axes)
        _dress(axes, agents, scores, results.sizes)
    panels[0].set_ylabel("% of the instances", color=MUTED)
    panels[0].set_ylim(bottom=0)
    handles = {
        label: handle
        for axes in panels
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=2 if compared else 4,
        frameon=False,
        fontsize=9.5,
        labelcolor=INK,
    )
    figure.suptitle(_title(results), x=0.01, ha="left", color=INK, fontsize=12)
    return figure


def _title(results: BenchmarkResults) -> str:
    model = results.asked.model if len(results.asked.model) <= 60 else f"...{results.asked.model[-57:]}"
    # A model's name must not be read as a formula.
    return f"{model}, {results.overall.n:,} instances, 95 % intervals".replace("$", r"\$")


def _published(axes: "Axes") -> None:
    for index, name in enumerate(("valid", "optimal")):
        places, values = list(ENGINEER_BY_SIZE), [rates[index] for rates in ENGINEER_BY_SIZE.values()]
        label = f"{name}, Qwen3-4B + GRPO + engineer ({MARK})"
        marks = {"marker": "D", "markersize": 5, "markerfacecolor": "white"}
        axes.plot(
            places,
            values,
            color=RATE_COLOURS[name],
            linewidth=1,
            linestyle=(0, (1.5, 2)),
            label=label,
            **marks,
        )


def _dress(axes: "Axes", agents: int, scores: list[Score], sizes: list[int]) -> None:
    strip_axes(axes, "y")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_xlim(min(sizes) - 0.5, max(sizes) + 0.5)
    axes.set_xlabel("map size", color=MUTED)
    number = f"{sum(score.n for score in scores):,} instances"
    axes.set_title(
        f"{agents} agent{'' if agents == 1 else 's'}, {number}", loc="left", color=MUTED, fontsize=10.5
    )
