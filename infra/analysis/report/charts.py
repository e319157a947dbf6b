"""The charts of the report as images. They are drawn for a light page; a dark one inverts their lightness and keeps their hues."""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from envgen.breakdown import Rate, SizeBreakdown
from envgen.mapf.verifier import FailureCategory
from infra.analysis.charts import GRID, INK, MUTED, RATE_COLOURS, draw_rates, new_figure, png, strip_axes, svg
from infra.analysis.formats import SPACE, interval, percent, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

PALETTE = {
    **RATE_COLOURS,
    "parse_error": "#8b959e",
    "illegal_move": "#e69f00",
    "hole_collision": "#3f6fb0",
    "conflict": "#d55e00",
    "goal_not_reached": "#cc79a7",
    "size-3": "#b7e2c1",
    "size-4": "#8ed3bd",
    "size-5": "#62c0bf",
    "size-6": "#3fa7c4",
    "size-7": "#2f8bc0",
    "size-8": "#2b6cb0",
    "size-9": "#2d4f9e",
    "size-10": "#2b3483",
}
"""Name of the CSS variable -> its colour on a light page; near those of Okabe and Ito, which stay apart for colour-blind readers. Map sizes darken."""

_FONTS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "DejaVu Sans"]
"""Those of the page."""
_ON_COLOUR: dict[str, str] = dict.fromkeys(("hole_collision", "size-8", "size-9", "size-10"), "#ffffff")
_SIDE = 0.07
"""Valid and optimal points stand this far left and right of their stage."""


def rate_chart(title: str, parts: Sequence[SizeBreakdown], name: str, *, top: float) -> Markup:
    """The rate `name` (valid, optimal) of the start policy and after each stage, with 95 % Wilson intervals; `top` ends the axis."""
    figure, axes = _figure(420, 225)
    rates = _draw_rates(axes, parts, name, 0.0)
    labelled = range(len(rates)) if len(rates) <= 6 else (0, len(rates) - 1)
    for stage in labelled:
        rate, colour = rates[stage], PALETTE[name]
        place = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center", "in_layout": False}
        axes.annotate(percent(rate.value), (stage, rate.high), color=colour, weight="bold", size=12, **place)
    names = ["start", *(str(stage) if len(parts) > 5 else f"stage {stage}" for stage in range(len(parts) - 1))]
    axes.set_xticks(range(len(parts)), names)
    margin = max(0.4, 0.085 * len(parts))
    axes.set_xlim(-margin, len(parts) - 1 + margin)
    _percent_axis(axes, 1.12 * top)
    return _image(figure, title)


def rates_png(parts: Sequence[SizeBreakdown]) -> bytes:
    """Both rates of the start policy and after each stage with 95 % Wilson intervals, as a picture of 840 x 420 pixels."""
    figure, axes = _figure(560, 280)
    for name, side in (("valid", -_SIDE), ("optimal", _SIDE)):
        last = _draw_rates(axes, parts, name, side)[-1]
        axes.annotate(
            f"{name} {percent(last.value)}", (len(parts) - 1 + side, last.high), xytext=(0, 5), textcoords="offset points", ha="center", color=PALETTE[name]
        )
    axes.set_xticks(range(len(parts)), ["start", *_stages(len(parts) - 1)])
    axes.set_xlim(-0.5, len(parts) - 0.5)
    _percent_axis(axes, 1.12 * axis_top(parts))
    axes.set_title(f"Rates on {parts[0].n} validation instances, 95 % intervals", loc="left", color=MUTED, fontsize=12)
    return png(figure, 108)


def size_chart(title: str, parts: Sequence[SizeBreakdown], *, top: float) -> Markup:
    """Both rates of one map size, small; the last values are written out."""
    figure, axes = _figure(270, 178)
    ends = [(name, float(_draw_rates(axes, parts, name, side)[-1].value)) for name, side in (("valid", -_SIDE), ("optimal", _SIDE))]
    places = _apart([value for _, value in ends], 0.1 * top)
    for place, (name, value) in zip(places, ends, strict=True):
        spot = (len(parts) - 1 + _SIDE, place)
        axes.annotate(_percent_text(value), spot, xytext=(9, 0), textcoords="offset points", color=PALETTE[name], va="center", weight="bold", size=12)
    every = 1 if len(parts) <= 8 else 2
    axes.set_xticks(range(0, len(parts), every), ["start", *map(str, range(len(parts) - 1))][::every])
    axes.set_xlim(-0.35, len(parts) - 0.65)
    _percent_axis(axes, top)
    return _image(figure, title)


def _draw_rates(axes: "Axes", parts: Sequence[SizeBreakdown], name: str, side: float) -> list[Rate]:
    rates = [part.valid_rate if name == "valid" else part.optimal_rate for part in parts]
    draw_rates(axes, np.arange(len(parts)) + side, rates, name)
    return rates


def axis_top(parts: Sequence[SizeBreakdown]) -> float:
    """A round end for the axis of these rates: the next 10 % above the highest interval."""
    highest = max(rate.high for part in parts for rate in (part.valid_rate, part.optimal_rate))
    return min(1.0, max(0.2, np.ceil(highest * 10 + 0.01) / 10))


def failure_chart(title: str, parts: Sequence[SizeBreakdown]) -> Markup:
    """Share of answers per failure category, one bar for the start policy and one for each stage."""
    figure, axes = _figure(900, 46 + 38 * len(parts))
    end = max(1 - part.valid_rate.value for part in parts) or 1.0
    shares = {category.value: np.array([part.failures[category] / part.n for part in parts]) for category in FailureCategory}
    ends = _stacked_bars(axes, ["start", *_stages(len(parts) - 1)], shares, lambda _, width: f"{100 * width:.0f}" if width > 0.045 * end else "")
    for row, part in enumerate(parts):
        total = Rate(value=ends[row], low=1 - part.valid_rate.high, high=1 - part.valid_rate.low)
        axes.annotate(
            percent(total.value), (total.value, row), xytext=(9, 0), textcoords="offset points", va="center_baseline", size=13, weight="bold", color=INK
        )
        axes.annotate(interval(total), (total.value, row), xytext=(67, 0), textcoords="offset points", va="center_baseline", size=12, color=MUTED)
    axes.set_xlim(0, end * 1.24)
    return _image(figure, title)


def budget_chart(title: str, budgets: Mapping[int, Sequence[float]]) -> Markup:
    """Share of the data per map size, one bar for each stage and one for what is proposed next."""
    bars = len(next(iter(budgets.values())))
    figure, axes = _figure(900, 46 + 38 * bars)

    def label(name: str, width: float) -> str:
        size = name.removeprefix("size-")
        return f"{size}×{size} {share(width)}" if width > 0.14 else f"{100 * width:.0f}" if width > 0.03 else ""

    _stacked_bars(axes, [*_stages(bars - 1), "proposed next"], {f"size-{size}": np.array(shares) for size, shares in budgets.items()}, label)
    axes.set_xlim(0, 1)
    return _image(figure, title)


def _stages(count: int) -> list[str]:
    return [f"stage {number}" for number in range(count)]


def _stacked_bars(axes: "Axes", names: Sequence[str], parts: Mapping[str, np.ndarray], label: Callable[[str, float], str]) -> np.ndarray:
    """A horizontal bar for each name, made of parts (name in the palette -> share for each bar) with labels; the ends of the bars."""
    rows, left = np.arange(len(names)), np.zeros(len(names))
    for part, shares in parts.items():
        axes.barh(rows, shares, left=left, height=0.66, color=PALETTE[part], linewidth=0)
        for row, (start, width) in enumerate(zip(left, shares, strict=True)):
            axes.text(
                start + width / 2, row, label(part, width), ha="center", va="center_baseline", size=13, weight="bold", color=_ON_COLOUR.get(part, "#14181c")
            )
        left += shares
    axes.set_yticks(rows, names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.xaxis.set_major_locator(_ticks(6))
    axes.xaxis.set_major_formatter(_percent_text)
    axes.grid(axis="x", color=GRID, linewidth=1)
    return left


def training_chart(title: str, steps: np.ndarray, values: np.ndarray, *, colour: str, limits: tuple[float, float], rate: bool) -> Markup:
    """A quantity over the training steps: each step faintly, the running mean in full, its last value written out."""
    figure, axes = _figure(400, 165)
    window = max(1, len(values) // 15)
    smooth = np.convolve(values, np.ones(window) / window, mode="valid")
    axes.plot(steps, values, color=colour, linewidth=1, alpha=0.35)
    axes.plot(steps[window - 1 :], smooth, color=colour, linewidth=2, marker="o" if len(smooth) == 1 else "")
    last = f"{100 * smooth[-1]:.0f}{SPACE}%" if rate else f"{smooth[-1]:.2f}"
    axes.annotate(last, (steps[-1], smooth[-1]), xytext=(6, 0), textcoords="offset points", color=colour, va="center", weight="bold", size=12)
    axes.xaxis.set_major_locator(_ticks(5))
    if rate:
        _percent_axis(axes, limits[1])
    else:
        axes.yaxis.set_major_locator(_ticks(4))
        axes.set_ylim(*limits)
        axes.grid(axis="y", color=GRID, linewidth=1)
    return _image(figure, title)


def _figure(width: int, height: int) -> "tuple[Figure, Axes]":
    """A bare figure whose units are CSS pixels."""
    figure = new_figure(width / 72, height / 72)
    axes = figure.add_subplot()
    strip_axes(axes)
    axes.tick_params(labelsize=12, pad=5)
    return figure, axes


def _percent_axis(axes: "Axes", top: float) -> None:
    axes.set_ylim(0, top)
    axes.yaxis.set_major_locator(_ticks(5))
    axes.yaxis.set_major_formatter(_percent_text)
    axes.grid(axis="y", color=GRID, linewidth=1)


def _percent_text(value: float, _position: float = 0) -> str:
    return f"{100 * value:.0f}{SPACE}%"


def _ticks(count: int) -> "MaxNLocator":
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(count, steps=[1, 2, 2.5, 5, 10])


def _apart(values: list[float], gap: float) -> list[float]:
    """Two label positions, moved apart to at least `gap`."""
    first, second = values
    push = max(0.0, gap - abs(first - second)) / 2 * (1 if first >= second else -1)
    return [first + push, second - push]


def _image(figure: "Figure", title: str) -> Markup:
    """The figure as an HTML image: SVG in a data URI, which the page's style sheet inverts in the dark."""
    source = base64.b64encode(svg(figure, title, {"font.sans-serif": _FONTS}, transparent=True).encode()).decode()
    return Markup('<img class="drawn" src="data:image/svg+xml;base64,{}" alt="{}">').format(source, title)
