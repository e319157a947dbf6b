"""`headroom.md` and `headroom.png`: where constant configs and the look-ahead end."""

from pathlib import Path

from envgen.files import write_text
from infra.analysis.charts import effects_figure, write_png
from infra.analysis.formats import listed, markdown_table, narrow, percent, rate_names
from infra.analysis.headroom.results import FIT, Headroom
from infra.analysis.results import ArmResult

PAGE, FIGURE = "headroom.md", "headroom.png"


def write_page(directory: Path, results: Headroom) -> Path:
    """Write both and return the path of the page."""
    gains = {arm.label: gain for arm in results.arms if (gain := results.gain(arm))}
    rows = {f"{results.preset}, {len(results.seeds)} seeds": {results.arms[0].label: gains}}
    write_png(directory / FIGURE, effects_figure(rows, "the validation set"))
    write_text(directory / PAGE, markdown(results))
    return directory / PAGE


def markdown(results: Headroom) -> str:
    """The table, the chains of the look-ahead, and whether the preset is fit for a study."""
    first, words = results.arms[0].label, list(rate_names(results.best_word).values())
    headings = ["config", *(f"{word}, %" for word in words), *(f"{word} minus `{first}`" for word in words)]
    judged = f"{results.instances} instances of the validation set"
    half = "; configs were chosen on the other half" if results.look_ahead else ""
    lines = [
        f"# Headroom of `{results.preset}`",
        "",
        f"{results.stages} stages, seeds {', '.join(map(str, results.seeds))}. "
        f"{listed(words).capitalize()} rate of the final policy on {judged}{half}. "
        f"The base policy solves {percent(results.start.value)}. Brackets are 95 % intervals, over seeds and "
        "instances.",
        "",
        markdown_table([*headings, "minutes of training"], [_row(results, arm) for arm in results.arms]),
        "",
        *(f"- Look-ahead, seed {seed}: {', '.join(chain)}" for seed, chain in results.chains.items()),
        "",
        verdict(results),
        "",
        f"![Valid rate of each config minus that of {first}, with its interval]({FIGURE})",
        "",
    ]
    return "\n".join(lines)


def verdict(results: Headroom) -> str:
    """Whether there is something to design, in words."""
    best, ahead = results.best, results.look_ahead
    if ahead is None:
        return f"The best arm, `{best.label}`, {_beats(results, best)}."
    chose = (
        "changed its config over the stages" if results.changes else "chose the same config at every stage"
    )
    needed = f"a gain of {FIT:g} times the smallest visible difference by configs that change"
    fit = (
        f"fit for a study: there is {needed}" if results.fit else f"not fit for a study, which takes {needed}"
    )
    constant = f"The best constant config, `{best.label}`, {_beats(results, best)}"
    found = f"{constant}; the look-ahead {_beats(results, ahead)}."
    return f"{found} The look-ahead {chose}. The preset is {fit}."


def _row(results: Headroom, arm: ArmResult) -> tuple[str, ...]:
    rates, to_first = rate_names(results.best_word), arm.against.get(results.arms[0].label)
    ends = (getattr(arm, name) for name in rates)
    gains = (getattr(to_first, name, None) for name in rates)
    return f"`{arm.label}`", *map(narrow, (*ends, *gains)), f"{(arm.training_seconds or 0) / 60:.1f}"


def _beats(results: Headroom, arm: ArmResult) -> str:
    gain = results.gain(arm)
    if gain is None:
        return "is the one that the others are compared with"
    return f"ends {narrow(gain)} points from it, where {100 * gain.detectable:.1f} could be seen"
