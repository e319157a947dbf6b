"""Heat maps of the configs that the arms of a round trained on."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from infra.analysis.comparison.chart import INK
from infra.analysis.report.charts import strip_axes
from infra.analysis.study.conduct import StageConfig
from infra.analysis.study.findings import ArmFinding, RoundFindings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_COLUMNS = 4
_COLOURS = "cividis"
"""Made for colour-blind readers (Nuñez, Anderton and Renslow 2018, PLOS ONE 13:e0199239)."""
_DARK = 0.6
"""Up to this share of the scale, numbers are white."""
_ALL = "all"


def budget_figure(found: RoundFindings) -> "Figure":
    """Share of the data by map size (above) and wait ratio by map size (below), a panel an arm, a column a stage, in %, mean over seeds."""
    from matplotlib.figure import Figure

    sizes = sorted({size for arm in found.arms for config in arm.conduct.configs for size in config.shares})
    rows = math.ceil(len(found.arms) / _COLUMNS)
    figure = Figure(figsize=(10, 2 * (0.7 + rows * (0.8 + 0.28 * (len(sizes) + 0.5)))), layout="constrained", facecolor="white")
    above, below = figure.subfigures(2, 1, squeeze=False, hspace=0.04).flat
    shares = _Heat([f"{size}×{size}" for size in sizes], lambda config: [config.shares.get(size, 0.0) for size in sizes])
    waits = _Heat([*(f"{size}×{size}" for size in sizes), _ALL], lambda config: [*(config.waits.get(size) for size in sizes), config.wait_ratio])
    _draw(above, shares, found.arms, "Share of the training data by map size, %")
    _draw(below, waits, found.arms, f"Share of training boards that need a wait by map size, %; '{_ALL}' is over all the data; no number: no data there")
    return figure


class _Heat:
    """What one block of panels shows of a config."""

    def __init__(self, rows: list[str], values: Callable[[StageConfig], Sequence[float | None]]):
        self.rows = rows
        self.values = values

    def table(self, arm: ArmFinding) -> np.ndarray:
        """Values in %, of shape (rows, stages); NaN where there is none."""
        columns = [[np.nan if value is None else 100 * value for value in self.values(config)] for config in arm.conduct.configs]
        return np.array(columns).T


def _draw(figure: "SubFigure", heat: _Heat, arms: Sequence[ArmFinding], title: str) -> None:
    tables = [heat.table(arm) for arm in arms]
    top = max(np.nanmax(table) for table in tables)
    rows = math.ceil(len(arms) / _COLUMNS)
    panels = figure.subplots(rows, _COLUMNS, squeeze=False)
    for axes in panels.flat[len(arms) :]:
        axes.set_axis_off()
    for index, (axes, arm, table) in enumerate(zip(panels.flat, arms, tables, strict=False)):
        _panel(axes, table, top)
        axes.set_title(arm.arm, loc="left", color=INK, fontsize=9.5)
        axes.set_yticks(range(len(heat.rows)), heat.rows if index % _COLUMNS == 0 else [])
        axes.set_xticks(range(table.shape[1]), [f"stage {stage}" if not stage else str(stage) for stage in range(table.shape[1])])
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=11)


def _panel(axes: "Axes", table: np.ndarray, top: float) -> None:
    axes.imshow(table, cmap=_COLOURS, vmin=0, vmax=top, aspect="auto")
    strip_axes(axes)
    axes.tick_params(labelsize=8.5)
    for (row, column), value in np.ndenumerate(table):
        if np.isfinite(value):
            colour = "white" if value <= _DARK * top else INK
            axes.text(column, row, f"{value:.0f}", ha="center", va="center_baseline", fontsize=9, color=colour)
