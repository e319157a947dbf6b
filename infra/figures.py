"""Every figure of reports and comparisons, as an image in a light page; the style sheet of a dark one inverts
their lightness and keeps their hues."""

import base64
import io
import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from envgen.breakdown import Counts
from envgen.estimates import ALPHA, Difference, Rate
from envgen.space import Space
from infra.comparison.results import ArmResult, ComparisonResults
from infra.formats import SPACE, estimate, interval, percent, points, short_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, FAINT, GRID = "#1c2126", "#5d6872", "#c3ccd4", "#dde3e8"
RATE_COLOURS = {"valid": "#0072b2", "optimal": "#009e73"}
NO_SIGNAL = "#d55e00"
"""Colour of the groups without signal."""
_ARMS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56a0d8", "#6a51a3", "#1c2126")
_CATEGORIES = ("#8b959e", "#e69f00", "#3f6fb0", NO_SIGNAL, "#cc79a7", "#009e73", "#b8860b", "#6a51a3")
"""Near the colours of Okabe and Ito, which colour-blind readers tell apart; grey where nothing was read."""
_MARKERS, _DASHES = ("o", "s", "^", "D", "v", "P"), ("-", (0, (5, 2)), (0, (1.2, 1.6)))
_FONTS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "Arial", "DejaVu Sans"]
"""Fonts of the page."""
_DARK = {"#3f6fb0", "#6a51a3"}
"""Colours that need white words on them."""
_NARROW = 0.08
"""Share of the width below which a part of a bar has no number."""
_SIDE = 0.07
"""Valid and optimal points stand this far left and right of their stage."""
_BOLD: Any = {"textcoords": "offset points", "annotation_clip": False, "weight": "bold", "size": 12}
OVERALL, PANEL = (420, 225), (270, 178)
"""Sizes of charts of rates in CSS pixels."""
_PANELS = 5
"""Panels of single arms in a row."""


def category_colours(space: Space) -> dict[str, str]:
    """Return the colour of each failure category."""
    return {name: _CATEGORIES[n % len(_CATEGORIES)] for n, name in enumerate(space.categories)}


def rate_chart(
    title: str, parts: Sequence[Counts], rates: Sequence[str], *, top: float, size: tuple[int, int] = OVERALL
) -> Markup:
    """Draw rates of the base policy and after each stage with intervals, on an axis up to `top`; values stand
    above the points of a single rate, and beside the last ones of valid and optimal."""
    figure, axes = _figure(*size)
    last = len(parts) - 1
    for place, name in zip((-_SIDE, _SIDE) if len(rates) == 2 else (0.0,), rates, strict=True):
        values, low, high = _ends([getattr(part, f"{name}_rate") for part in parts])
        style = {"color": RATE_COLOURS[name], "linewidth": 2, "marker": "o", "markersize": 5}
        reach = values - low, high - values
        axes.errorbar(np.arange(len(parts)) + place, values, reach, **style, elinewidth=1.2)
        if len(rates) == 2:  # optimal answers are valid, so that the valid rate is the higher one
            spot = {"xytext": (9, 1), "va": "bottom"} if name == "valid" else {"xytext": (9, -1), "va": "top"}
            axes.annotate(
                _percent(values[-1]), (last + _SIDE, values[-1]), color=style["color"], **_BOLD, **spot
            )
            continue
        for stage in range(len(parts)) if last < 6 else (0, last):
            spot = {"xytext": (0, 5), "ha": "center", "in_layout": False}
            axes.annotate(percent(values[stage]), (stage, high[stage]), color=style["color"], **_BOLD, **spot)
    _stage_axis(axes, last, words=size == OVERALL and last <= 4)
    _percent_axis(axes, 0, 1.12 * top if len(rates) == 1 else top)
    return _image(figure, title)


def axis_top(parts: Sequence[Counts]) -> float:
    """Return a round end for the axis of these rates: the next 10 % above the highest interval."""
    highest = max(rate.high for part in parts for rate in (part.valid_rate, part.optimal_rate))
    return min(1.0, max(0.2, np.ceil(highest * 10 + 0.01) / 10))


def failure_bars(space: Space, parts: Mapping[str, Counts]) -> Markup:
    """Draw the share of answers per failure category in HTML, a bar for each policy. `parts`: its counts."""
    row = Markup('<div class="row"><span>{}</span><div class="bar">{}</div><b>{}</b></div>')
    block = Markup('<span style="width: {:.3f}%; background: {}; color: {}">{}</span>')
    full = max(1 - part.valid_rate.value for part in parts.values()) or 1.0
    rows = Markup("")
    for name, part in parts.items():
        blocks = Markup("")
        for category, colour in category_colours(space).items():
            share = part.failures.get(category, 0) / part.n
            words = "#ffffff" if colour in _DARK else "#14181c"
            number = f"{100 * share:.0f}" if share > _NARROW * full else ""
            blocks += block.format(100 * share / full, colour, words, number)
        rows += row.format(name, blocks, estimate(part.share(part.n - part.valid)))
    return rows


def training_chart(
    title: str, steps: Sequence[int], values: Sequence[float], limits: tuple[float, float] | None = None
) -> Markup:
    """Draw a quantity over training steps, faintly, and its running mean with the last value; without
    `limits` of the axis it is a share."""
    figure, axes = _figure(400, 165)
    colour = INK if limits else NO_SIGNAL
    heights, window = np.array(values, dtype=float), max(1, len(values) // 15)
    smooth = np.convolve(heights, np.ones(window) / window, mode="valid")
    axes.plot(steps, heights, color=colour, linewidth=1, alpha=0.35)
    axes.plot(steps[window - 1 :], smooth, color=colour, linewidth=2, marker="o" if len(smooth) == 1 else "")
    last = f"{smooth[-1]:.2f}" if limits else _percent(smooth[-1])
    axes.annotate(last, (steps[-1], smooth[-1]), xytext=(6, 0), va="center", color=colour, **_BOLD)
    axes.locator_params(axis="x", nbins=5, integer=True)
    if limits:
        axes.locator_params(axis="y", nbins=4)
        axes.set_ylim(*limits)
    else:
        _percent_axis(axes, 0, 1)
    axes.grid(axis="y", color=GRID, linewidth=1)
    return _image(figure, title)


def learning_curves(results: ComparisonResults) -> Markup | None:
    """Draw the valid rate of arms on the test set over the generated tokens, by stage where tokens are
    unknown; each of several also has a panel by stage with its interval. None before a run has finished."""
    arms = [arm for arm in results.arms if arm.curve]
    if not arms:
        return None
    columns, many = min(len(arms), _PANELS), len(arms) > 1
    rows = math.ceil(len(arms) / columns) if many else 0
    figure = _new_figure(720, 331 + 151 * rows)
    grid = figure.add_gridspec(1 + rows, columns, height_ratios=[331, *[151] * rows])
    main, by_tokens = figure.add_subplot(grid[0, :]), all(arm.tokens[-1] for arm in arms)
    limits = _limits([rate for arm in arms for rate in arm.curve])
    for index, arm in enumerate(arms):
        _curve(main, arm, index, arm.tokens if by_tokens else range(results.stages + 1), band=not many)
    if by_tokens:
        main.xaxis.set_major_formatter(lambda value, _: short_count(value))
        main.set_xlabel("generated training tokens, mean over seeds; a point after each stage", color=MUTED)
    else:
        _stage_axis(main, results.stages, words=True)
    subject = f"Valid rate on {results.instances} test instances, mean over seeds"
    words = f"{subject}{'; below, with' if many else ','} 95 % intervals over {sampled(arms)}"
    main.set_title(words, loc="left", color=INK, fontsize=12)
    figure.legend(loc="outside upper left", ncols=4, frameon=False, fontsize=9.5, labelcolor=INK)
    axes = [main]
    for index, arm in enumerate(arms if many else ()):
        panel = figure.add_subplot(grid[1 + index // columns, index % columns])
        for other in arms:
            panel.plot([rate.value for rate in other.curve], color=FAINT, linewidth=1)
        _curve(panel, arm, index, range(results.stages + 1), band=True)
        _stage_axis(panel, results.stages, words=False)
        panel.tick_params(labelsize=8.5)
        panel.set_title(_with_seeds(arm), loc="left", color=INK, fontsize=9)
        axes.append(panel)
    for drawn in axes:
        _percent_axis(drawn, *limits)
    return _image(figure, "Learning curves: valid rate on the test set")


def effect_chart(results: ComparisonResults) -> Markup | None:
    """Draw differences of the final valid rate on the test set, a panel for each baseline; None without."""
    against = results.differences("valid")
    if not against:
        return None
    heights = [len(effects) + 0.4 for effects in against.values()]
    figure = _new_figure(403, 94 + sum(24.5 * height + 30 for height in heights))
    panels = figure.subplots(len(against), 1, squeeze=False, height_ratios=heights)[:, 0]
    effects = [effect for of_base in against.values() for effect in of_base.values()]
    significant = [pair for pair in results.pairs if pair.adjusted.get("valid", 1.0) < ALPHA]
    # At least one point, where nothing differs.
    reach = 1.05 * max(0.01, *(abs(end) for effect in effects for end in (effect.low, effect.high)))
    for axes, (base, of_base) in zip(panels, against.items(), strict=True):
        _forest(axes, of_base, [pair.arm for pair in significant if pair.minus == base])
        axes.set_xlim(-reach, reach)
        axes.set_title(f"minus {base}", loc="left", color=INK, fontsize=11)
    explained = "points of the final valid rate on the test set, 95 % intervals, unadjusted;"
    explained += "\nfilled: ahead or behind by the adjusted p-value"
    figure.supxlabel(explained, fontsize=9.5, color=MUTED)
    return _image(figure, "Differences of the final valid rate to each baseline")


def sampled(arms: Sequence[ArmResult]) -> str:
    """Return what intervals take for samples: with one seed an arm, instances alone."""
    return "seeds and instances" if any(len(arm.seeds) > 1 for arm in arms) else "instances"


def _curve(axes: "Axes", arm: ArmResult, index: int, places: Sequence[float], *, band: bool) -> None:
    colour = _ARMS[index % len(_ARMS)]
    values, low, high = _ends(arm.curve)
    if band:
        axes.fill_between(places, low, high, facecolor=(colour, 0.2), edgecolor=(colour, 0.7), linewidth=0.8)
    dash, marker = _DASHES[index // len(_ARMS) % len(_DASHES)], _MARKERS[index % len(_MARKERS)]
    marks = {"color": colour, "linewidth": 2, "marker": marker, "markersize": 5, "linestyle": dash}
    axes.plot(places, values, label=_with_seeds(arm), **marks)


def _with_seeds(arm: ArmResult) -> str:
    return f"{arm.label} ({len(arm.seeds)} seed{'' if len(arm.seeds) == 1 else 's'})"


def _limits(rates: Sequence[Rate]) -> tuple[float, float]:
    """Ends of an axis: multiples of 5 % around all intervals."""
    low, high = min(rate.low for rate in rates), max(rate.high for rate in rates)
    return max(0.0, math.floor(20 * low - 0.2) / 20), min(1.0, math.ceil(20 * high + 0.2) / 20)


def _forest(axes: "Axes", effects: Mapping[str, Difference], filled: Collection[str]) -> None:
    """Draw a row for each arm and its difference."""
    colour, beside = _ARMS[0], {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": 9}
    for row, (arm, effect) in enumerate(effects.items()):
        reach = [[effect.value - effect.low], [effect.high - effect.value]]
        marks = {"marker": "o", "markersize": 7, "markerfacecolor": colour if arm in filled else "white"}
        axes.errorbar(
            effect.value, row, xerr=reach, color=colour, elinewidth=1.8, markeredgewidth=1.6, **marks
        )
        axes.text(1.03, row, f"{points(effect.value)} {interval(effect)}", color=INK, **beside)
    axes.axvline(0, color=INK, linewidth=1)
    axes.grid(axis="x", color=GRID, linewidth=1)
    axes.set_yticks(range(len(effects)), list(effects), color=INK)
    axes.set_ylim(len(effects) - 0.5, -0.5)
    axes.locator_params(axis="x", nbins=6)
    axes.xaxis.set_major_formatter(lambda value, _: f"{round(100 * value, 1) + 0.0:+g}")


def _ends(rates: Sequence[Rate]) -> np.ndarray:
    """Return values, lower and upper ends of rates, of shape (3, rates)."""
    return np.array([(rate.value, rate.low, rate.high) for rate in rates]).T


def _stage_axis(axes: "Axes", stages: int, *, words: bool) -> None:
    names = ["start", *(f"stage {number}" if words else str(number) for number in range(stages))]
    every = math.ceil(len(names) / 9)
    axes.set_xticks(range(0, len(names), every), names[::every])
    axes.set_xlim(-0.4, len(names) - 0.6)


def _percent_axis(axes: "Axes", low: float, top: float) -> None:
    axes.set_ylim(low, top)
    axes.locator_params(axis="y", nbins=5)
    axes.yaxis.set_major_formatter(_percent)
    axes.grid(axis="y", color=GRID, linewidth=1)


def _percent(value: float, _position: float = 0) -> str:
    return f"{100 * value:.0f}{SPACE}%"


def _new_figure(width: float, height: float) -> "Figure":
    """Return a figure on a transparent page whose units are CSS pixels."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width / 72, height / 72), layout="constrained")


def _figure(width: float, height: float) -> "tuple[Figure, Axes]":
    figure = _new_figure(width, height)
    axes = figure.add_subplot()
    axes.tick_params(labelsize=12, pad=5)
    return figure, axes


def _image(figure: "Figure", title: str) -> Markup:
    """Return a figure as an HTML image, the same text each time: SVG in a data URI."""
    import matplotlib

    for axes in figure.axes:
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labelcolor=MUTED)
        axes.set_axisbelow(True)
    drawn = io.BytesIO()
    fonts = {"svg.fonttype": "none", "svg.hashsalt": title, "font.sans-serif": _FONTS}
    with matplotlib.rc_context(fonts):  # pyright: ignore[reportArgumentType]
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(drawn, format="svg", metadata=metadata, transparent=True)
    source = base64.b64encode(drawn.getvalue()).decode()
    return Markup('<img class="drawn" src="data:image/svg+xml;base64,{}" alt="{}">').format(source, title)
