"""`headroom.md` and `headroom.png`: where constant configs and the look-ahead end."""

from pathlib import Path
from typing import TYPE_CHECKING

from envgen.files import atomic_path, write_text
from infra.analysis.comparison.chart import COLOURS, GRID, INK, MUTED
from infra.analysis.headroom.results import FIT, Arm, Headroom
from infra.analysis.headroom.spec import LOOK_AHEAD
from infra.analysis.report.charts import strip_axes
from infra.analysis.report.text import with_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE, FIGURE = "headroom.md", "headroom.png"


def write_page(directory: Path, results: Headroom) -> Path:
    """Write both and return the path of the page."""
    with atomic_path(directory / FIGURE) as temporary:
        figure(results).savefig(temporary, format="png", dpi=150, metadata={"Software": None})
    write_text(directory / PAGE, markdown(results))
    return directory / PAGE


def markdown(results: Headroom) -> str:
    """The table, the chains of the look-ahead, and whether the preset is fit for a study."""
    first = results.arms[0].name
    lines = [
        f"# Headroom of `{results.preset}`",
        "",
        f"{results.stages} stages, seeds {', '.join(map(str, results.seeds))}. Valid and optimal rate of the final policy on {results.instances} instances of "
        f"the validation set{'; configs were chosen on the other half' if results.look_ahead else ''}. The base policy solves "
        f"{100 * results.start.value:.1f} %. Brackets are 95 % intervals, over seeds and instances.",
        "",
        f"| config | valid, % | optimal, % | valid minus `{first}` | optimal minus `{first}` | minutes of training |",
        "|---|---|---|---|---|---|",
        *(_row(arm) for arm in results.arms),
        "",
        *(f"- Look-ahead, seed {seed}: {', '.join(chain)}" for arm in results.arms for seed, chain in zip(results.seeds, arm.chains, strict=False)),
        "",
        verdict(results),
        "",
        f"![Valid rate of each config with its interval]({FIGURE})",
        "",
    ]
    return "\n".join(lines)


def verdict(results: Headroom) -> str:
    """Whether there is something to design, in words."""
    best, ahead = results.best, results.look_ahead
    if ahead is None:
        return f"The best arm, `{best.name}`, {_beats(best)}."
    parts = [f"The best constant config, `{best.name}`, {_beats(best)}; the look-ahead {_beats(ahead)}."]
    parts.append("The look-ahead changed its config over the stages." if results.changes else "The look-ahead chose the same config at every stage.")
    needed = f"a gain of {FIT:g} times the smallest visible difference by configs that change"
    parts.append(f"The preset is fit for a study: there is {needed}." if results.fit else f"The preset is not fit for a study, which takes {needed}.")
    return " ".join(parts)


def figure(results: Headroom) -> "Figure":
    """A line an arm: valid rate and its interval; a dashed line marks the first config."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(9, 1.2 + 0.36 * len(results.arms)), facecolor="white")
    drawn.set_layout_engine("constrained")
    axes = drawn.subplots()
    strip_axes(axes)
    axes.grid(axis="x", color=GRID, linewidth=1)
    for place, arm in enumerate(reversed(results.arms)):
        colour = COLOURS[1] if arm.name == LOOK_AHEAD else COLOURS[0]
        axes.plot([100 * arm.valid.low, 100 * arm.valid.high], [place, place], color=colour, linewidth=2)
        axes.plot([100 * arm.valid.value], [place], marker="o", color=colour, markersize=6)
    axes.axvline(100 * results.arms[0].valid.value, color=MUTED, linewidth=1, linestyle="--")
    axes.set_yticks(range(len(results.arms)), [arm.name for arm in reversed(results.arms)])
    axes.set_xlabel("valid rate after the last stage, %", color=MUTED)
    axes.set_title(f"{results.preset}: {results.stages} stages, {len(results.seeds)} seeds", loc="left", color=INK, fontsize=11)
    return drawn


def _row(arm: Arm) -> str:
    rates = " | ".join(map(with_interval, (arm.valid, arm.optimal)))
    return f"| `{arm.name}` | {rates} | {with_interval(arm.to_baseline, '+')} | {with_interval(arm.optimal_to_baseline, '+')} | {arm.minutes:.1f} |"


def _beats(arm: Arm) -> str:
    if arm.to_baseline is None:
        return "is the one that the others are compared with"
    return f"ends {with_interval(arm.to_baseline, '+')} points from it, where {100 * arm.to_baseline.detectable:.1f} could be seen"
