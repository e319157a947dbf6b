"""The charts of the report as images.

They are drawn for a light page; a dark one inverts their lightness and keeps their hues.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from envgen.breakdown import Counts, Rate
from envgen.space import Space
from infra.analysis.charts import GRID, INK, MUTED, RATE_COLOURS, draw_rates, new_figure, strip_axes, svg
from infra.analysis.formats import SPACE, interval, percent, rate_names, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

NOTHING_LEARNED = "#d55e00"
"""Colour of the groups without reward variance."""
_CATEGORIES = ("#8b959e", "#e69f00", "#3f6fb0", NOTHING_LEARNED, "#cc79a7", "#009e73", "#b8860b", "#6a51a3")
"""Near those of Okabe and Ito, which colour-blind readers tell apart; grey where nothing was read."""
_STRATA = ("#b7e2c1", "#8ed3bd", "#62c0bf", "#3fa7c4", "#2f8bc0", "#2b6cb0", "#2d4f9e", "#2b3483")
"""Strata darken; more of them have colours between these."""
_FONTS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "DejaVu Sans"]
"""Those of the page."""
_DARK = 0.41
"""Luma below which a colour needs white words on it."""
_SIDE = 0.07
"""Valid and optimal points stand this far left and right of their stage."""
_WIDE, _WIDE_LETTER, _NARROW = 0.14, 0.028, 0.03
"""Shares of a bar whose label fits: at least, of each letter, and of the bare number."""


def palette(space: Space) -> dict[str, str]:
    """Name of a CSS variable -> its colour on a light page: valid, optimal, category-0 ..., stratum-0 ..."""
    strata = {f"stratum-{n}": colour for n, colour in enumerate(_shades(len(space.names)))}
    return {
        **RATE_COLOURS,
        **{category_colour(space, name): _of(space, name) for name in space.categories},
        **strata,
    }


def category_colour(space: Space, category: str) -> str:
    """The CSS variable of a failure category."""
    return f"category-{space.categories.index(category)}"


def stratum_colour(space: Space, name: str) -> str:
    """The CSS variable of a stratum."""
    return f"stratum-{space.names.index(name)}"


def _of(space: Space, category: str) -> str:
    return _CATEGORIES[space.categories.index(category) % len(_CATEGORIES)]


def _shades(count: int) -> list[str]:
    from matplotlib.colors import LinearSegmentedColormap, to_hex

    if count <= len(_STRATA):
        return list(_STRATA[:count])
    between = LinearSegmentedColormap.from_list("strata", _STRATA)
    return [to_hex(between(place)) for place in np.linspace(0, 1, count)]


def _ink_on(colour: str) -> str:
    from matplotlib.colors import to_rgb

    luma = np.dot(to_rgb(colour), (0.299, 0.587, 0.114))
    return "#ffffff" if luma < _DARK else "#14181c"


def rate_chart(title: str, parts: Sequence[Counts], name: str, *, top: float) -> Markup:
    """The rate `name` (valid, optimal) of the base policy and after each stage, with 95 % Wilson intervals.

    `top` ends the axis.
    """
    figure, axes = _figure(420, 225)
    rates = _draw_rates(axes, parts, name, 0.0)
    place = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center", "in_layout": False}
    words = {"color": RATE_COLOURS[name], "weight": "bold", "size": 12}
    for stage in range(len(rates)) if len(rates) <= 6 else (0, len(rates) - 1):
        axes.annotate(percent(rates[stage].value), (stage, rates[stage].high), **words, **place)
    stages = len(parts) - 1
    axes.set_xticks(
        range(len(parts)), ["start", *(map(str, range(stages)) if stages > 4 else _stages(stages))]
    )
    margin = max(0.4, 0.085 * len(parts))
    axes.set_xlim(-margin, len(parts) - 1 + margin)
    _percent_axis(axes, 1.12 * top)
    return _image(figure, title)


def stratum_chart(title: str, space: Space, parts: Sequence[Counts], *, top: float) -> Markup:
    """The rates of one stratum, small; the last values are written out."""
    figure, axes = _figure(270, 178)
    ends = [(name, _draw_rates(axes, parts, name, side)[-1].value) for (name, _), side in _sides(space)]
    places = _apart([value for _, value in ends], 0.1 * top)
    beside = {"xytext": (9, 0), "textcoords": "offset points", "va": "center", "weight": "bold", "size": 12}
    for place, (name, value) in zip(places, ends, strict=True):
        spot = (len(parts) - 1 + _SIDE, place)
        axes.annotate(_percent_text(value), spot, color=RATE_COLOURS[name], **beside)
    every = 1 if len(parts) <= 8 else 2
    axes.set_xticks(range(0, len(parts), every), ["start", *map(str, range(len(parts) - 1))][::every])
    axes.set_xlim(-0.35, len(parts) - 0.65)
    _percent_axis(axes, top)
    return _image(figure, title)


def _sides(space: Space) -> list[tuple[tuple[str, str], float]]:
    """(rate, its word) and how far beside its stage it stands."""
    names = list(rate_names(space.best).items())
    return list(zip(names, (-_SIDE, _SIDE) if len(names) == 2 else (0.0,), strict=True))


def _draw_rates(axes: "Axes", parts: Sequence[Counts], name: str, side: float) -> list[Rate]:
    rates = [part.valid_rate if name == "valid" else part.optimal_rate for part in parts]
    draw_rates(axes, np.arange(len(parts)) + side, rates, name)
    return rates


def axis_top(parts: Sequence[Counts]) -> float:
    """A round end for the axis of these rates: the next 10 % above the highest interval."""
    highest = max(rate.high for part in parts for rate in (part.valid_rate, part.optimal_rate))
    return min(1.0, max(0.2, np.ceil(highest * 10 + 0.01) / 10))


def failure_chart(title: str, space: Space, parts: Sequence[Counts]) -> Markup:
    """Share of answers per failure category, one bar for the base policy and one for each stage."""
    figure, axes = _figure(900, 46 + 38 * len(parts))
    end = max(1 - part.valid_rate.value for part in parts) or 1.0
    shares = [
        (_of(space, name), np.array([part.failures.get(name, 0) / part.n for part in parts]))
        for name in space.categories
    ]

    def label(_: int, width: float) -> str:
        return f"{100 * width:.0f}" if width > 0.045 * end else ""

    ends = _stacked_bars(axes, ["start", *_stages(len(parts) - 1)], shares, label)
    for row, part in enumerate(parts):
        total = Rate(value=ends[row], low=1 - part.valid_rate.high, high=1 - part.valid_rate.low)
        beside = {"textcoords": "offset points", "va": "center_baseline"}
        bold = {"xytext": (9, 0), "size": 13, "weight": "bold", "color": INK, **beside}
        faint = {"xytext": (67, 0), "size": 12, "color": MUTED, **beside}
        axes.annotate(percent(total.value), (total.value, row), **bold)
        axes.annotate(interval(total), (total.value, row), **faint)
    axes.set_xlim(0, end * 1.24)
    return _image(figure, title)


def budget_chart(title: str, space: Space, budgets: Mapping[str, Sequence[float]]) -> Markup:
    """Share of the data per stratum, one bar for each stage and one for the last proposal."""
    bars, names = len(next(iter(budgets.values()))), list(budgets)
    figure, axes = _figure(900, 46 + 38 * bars)

    def label(part: int, width: float) -> str:
        word = space.label(names[part])
        if width > max(_WIDE, _WIDE_LETTER * len(word)):
            return f"{word} {share(width)}"
        return f"{100 * width:.0f}" if width > _NARROW else ""

    colours = palette(space)
    shares = [(colours[stratum_colour(space, name)], np.array(found)) for name, found in budgets.items()]
    _stacked_bars(axes, [*_stages(bars - 1), "proposed, not run"], shares, label)
    axes.set_xlim(0, 1)
    return _image(figure, title)


def _stages(count: int) -> list[str]:
    return [f"stage {number}" for number in range(count)]


def _stacked_bars(
    axes: "Axes",
    names: Sequence[str],
    parts: Sequence[tuple[str, np.ndarray]],
    label: Callable[[int, float], str],
) -> np.ndarray:
    """A horizontal bar for each name, made of parts with labels; the ends of the bars.

    Of each part the colour, and its share in each bar; `label` is given the number of a part and a share.
    """
    rows, left = np.arange(len(names)), np.zeros(len(names))
    for part, (colour, shares) in enumerate(parts):
        axes.barh(rows, shares, left=left, height=0.66, color=colour, linewidth=0)
        words = {"ha": "center", "va": "center_baseline", "size": 13, "weight": "bold"}
        for row, (start, width) in enumerate(zip(left, shares, strict=True)):
            place = start + width / 2, row
            axes.text(*place, label(part, width), parse_math=False, color=_ink_on(colour), **words)
        left += shares
    axes.set_yticks(rows, names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.xaxis.set_major_locator(_ticks(6))
    axes.xaxis.set_major_formatter(_percent_text)
    axes.grid(axis="x", color=GRID, linewidth=1)
    return left


def training_chart(
    title: str, steps: np.ndarray, values: np.ndarray, limits: tuple[float, float] | None = None
) -> Markup:
    """A quantity over the training steps: each step faintly, the running mean in full with its last value.

    Without `limits`, the ends of its axis, it is a share.
    """
    figure, axes = _figure(400, 165)
    colour = INK if limits else NOTHING_LEARNED
    window = max(1, len(values) // 15)
    smooth = np.convolve(values, np.ones(window) / window, mode="valid")
    axes.plot(steps, values, color=colour, linewidth=1, alpha=0.35)
    axes.plot(steps[window - 1 :], smooth, color=colour, linewidth=2, marker="o" if len(smooth) == 1 else "")
    last = f"{smooth[-1]:.2f}" if limits else _percent_text(smooth[-1])
    beside = {"xytext": (6, 0), "textcoords": "offset points", "va": "center", "weight": "bold", "size": 12}
    axes.annotate(last, (steps[-1], smooth[-1]), color=colour, **beside)
    axes.xaxis.set_major_locator(_ticks(5))
    if limits:
        axes.yaxis.set_major_locator(_ticks(4))
        axes.set_ylim(*limits)
        axes.grid(axis="y", color=GRID, linewidth=1)
    else:
        _percent_axis(axes, 1)
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
    """One or two label positions, two moved apart to at least `gap`."""
    if len(values) == 1:
        return values
    first, second = values
    push = max(0.0, gap - abs(first - second)) / 2 * (1 if first >= second else -1)
    return [first + push, second - push]


def _image(figure: "Figure", title: str) -> Markup:
    """The figure as an HTML image: SVG in a data URI, which the page's style sheet inverts in the dark."""
    source = base64.b64encode(
        svg(figure, title, {"font.sans-serif": _FONTS}, transparent=True).encode()
    ).decode()
    return Markup('<img class="drawn" src="data:image/svg+xml;base64,{}" alt="{}">').format(source, title)
