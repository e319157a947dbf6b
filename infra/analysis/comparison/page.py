"""What people read of a comparison: `comparison.html`, and its table for the terminal."""

from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup

from envgen.files import write_html
from infra.analysis.charts import curves, differences, sampled
from infra.analysis.formats import (
    difference_text,
    duration,
    listed,
    narrow,
    rate_names,
    short_count,
)
from infra.analysis.report.build import environment
from infra.analysis.report.tables import made_with
from infra.analysis.results import BASELINES, ArmResult, ComparisonResults, Pair, RateName, State
from infra.analysis.statistics import Effect

PAGE = "comparison.html"
_SHORT = 3
"""Letters of a word for the best answers that the table has room for."""


def headings(results: ComparisonResults) -> tuple[str, ...]:
    """What stands above the columns of `rows`."""
    return ("engineer", "seeds", "rate", "final %", "area", *_to(results), "tokens", "time")


def _to(results: ComparisonResults) -> list[str]:
    return [f"to {base}" for base in results.against]


def rows(results: ComparisonResults) -> list[tuple[str, ...]]:
    """A row for each arm and rate, valid and optimal, under `headings`."""
    return [row for arm in results.arms for row in _rows(results, arm)]


def _rows(results: ComparisonResults, arm: ArmResult) -> list[tuple[str, ...]]:
    failed = any(child.arm == arm.label for child in results.failed)
    seeds = f"{len(arm.seeds)}/{len(results.seeds)}{'!' if failed else ''}"
    tokens = short_count(sum(arm.tokens.values())) if arm.tokens else ""
    time = duration(arm.seconds) if arm.seconds is not None else ""
    bases = tuple(results.against)
    valid = (arm.label, seeds, "valid", *_numbers(arm, "valid", bases), tokens, time)
    if not results.best:
        return [valid]
    return [valid, ("", "", _short(results.best), *_numbers(arm, "optimal", bases), "", "")]


def _short(best: str) -> str:
    return best if len(best) <= _SHORT else f"{best[:_SHORT]}."


def _numbers(arm: ArmResult, name: str, bases: tuple[str, ...]) -> tuple[str, ...]:
    """Final rate, area under the curve, and differences to baselines."""
    final, area = getattr(arm, name), getattr(arm, f"{name}_area")
    if final is None:
        return "-", "-", *("" for _ in bases)
    against = (getattr(arm.against.get(base), name, None) for base in bases)
    return narrow(final), f"{100 * area.value:.1f}", *(narrow(found, gap="") for found in against)


def caption(results: ComparisonResults) -> str:
    """What the table's columns are, and which curricula failed."""
    best = f", and {results.best} ones ({_short(results.best)})" if results.best else ""
    failed = ", ".join(child.name for child in results.failed)
    said = [
        conclusion(results),
        conclusion_of_best(results),
        f"! failed: {failed}." if failed else "",
    ]
    differences = f" {', '.join(_to(results))}: points, paired by seed and instance." if _to(results) else ""
    note = (
        f"Valid answers{best}; final: at the end; area: mean height of the curve from stage 0 on, in %;"
        f"{differences} [95 % intervals] over {sampled(results.arms)}. Tokens and time: a run, without"
        " the shared stage 0."
    )
    return "\n".join(line for line in (note, *said) if line)


def conclusion(results: ComparisonResults) -> str:
    """Who ends ahead of a baseline, by how much, and who cannot be told from it: a sentence for each baseline
    that takes part; without one, who ends ahead of whom."""
    if results.against:
        return _conclusions(results, "valid", "valid")
    if not any(arm.valid for arm in results.arms):
        return "No curriculum has finished yet."
    return _without_baseline(results)


def conclusion_of_best(results: ComparisonResults) -> str:
    """The same of the rate of optimal answers, which may tell another story; empty without it or a
    baseline."""
    return _conclusions(results, "optimal", results.best) if results.best else ""


def _conclusions(results: ComparisonResults, rate: RateName, word: str) -> str:
    found = results.differences(rate).items()
    return " ".join(_conclusion(base, word, effects) for base, effects in found)


def _without_baseline(results: ComparisonResults) -> str:
    if not results.pairs:
        return "One engineer variant has finished: there is nothing to compare it with."
    clear = [_ahead(pair) for pair in results.pairs if pair.valid.sign]
    alike = [f"{pair.arm} and {pair.minus}" for pair in results.pairs if not pair.valid.sign]
    if not clear:
        most = _ahead(max(results.pairs, key=lambda pair: abs(pair.valid.value)))
        told = "No engineer variant can be told apart from another in valid rate at the end"
        return f"{told}; the largest difference: {most}."
    apart = f"; not told apart: {listed(alike)}" if alike else ""
    return f"In valid rate at the end: {listed(clear)}{apart}."


def _ahead(pair: Pair) -> str:
    """Two arms, the better one first, with their difference."""
    found, names = pair.valid, (pair.arm, pair.minus)
    if found.value < 0:
        turned = {"value": -found.value, "low": -found.high, "high": -found.low}
        found, names = found.model_copy(update=turned), names[::-1]
    return f"{names[0]} ahead of {names[1]} by {difference_text(found)}"


def _conclusion(base: str, word: str, effects: Mapping[str, Effect]) -> str:
    ordered = sorted(effects.items(), key=lambda item: -item[1].value)
    clear = [f"{name} by {difference_text(effect)}" for name, effect in ordered if effect.sign > 0]
    behind = [f"{name} by {difference_text(effect)}" for name, effect in ordered if effect.sign < 0]
    alike = [name for name, effect in ordered if not effect.sign]
    parts = [
        f"ahead of it: {listed(clear)}" if clear else "",
        f"behind it: {listed(behind)}" if behind else "",
        f"not told apart from it: {listed(alike)}" if alike else "",
    ]
    return f"Against {base}, in {word} rate at the end: {'; '.join(part for part in parts if part)}."


def title(results: ComparisonResults) -> str:
    """Headline of the table."""
    judged = f"{results.stages} stages, validation on {results.instances} instances"
    one = f", shared stage 0 of seed {results.stage0_seed}"
    shared = one if results.stage_0 == "one" else ", a shared stage 0 of each seed"
    return f"{results.comparison}: {judged}{shared}"


def write_page(directory: Path, results: ComparisonResults) -> Path:
    """Write `comparison.html`, and return its path."""
    rates = rate_names(results.best)
    # Of two arms of which one is a baseline the difference is in both tables.
    pairs = [pair for pair in results.pairs if not {pair.arm, pair.minus} & {*BASELINES}]
    intervals = sum(len(arm.against) for arm in results.arms) * len(rates) + len(pairs)
    page = environment(Path(__file__).parent).get_template("comparison.html.j2")
    shown = page.render(
        results=results,
        figure=Markup(curves(results)),
        differences=Markup(differences(results)),
        made=made_with(results.made),
        pairs=pairs,
        rates=rates,
        baselines=tuple(results.against),
        intervals=intervals,
        chance=0.05 * intervals,
        conclusion=conclusion(results),
        conclusion_of_best=conclusion_of_best(results),
        finished=State.FINISHED,
    )
    write_html(directory / PAGE, shown)
    return directory / PAGE
