"""`comparison.html`, and the conclusion of a comparison in words."""

from collections.abc import Sequence
from pathlib import Path

from envgen.estimates import ALPHA
from envgen.files import write_html
from infra import tables
from infra.comparison.results import ComparisonResults, Figure, Pair
from infra.figures import effect_chart, learning_curves
from infra.formats import count, estimate, figure_names, listed, rate_names, short_count
from infra.report.page import environment

PAGE = "comparison.html"


def write_page(directory: Path, results: ComparisonResults) -> Path:
    """Write `comparison.html`, and return its path."""
    words = figure_names(results.best)
    more = dict.fromkeys(name for arm in results.arms for name in arm.rates if name != "valid")
    page = environment(Path(__file__).parent).get_template("comparison.html.j2")
    html = page.render(
        results=results,
        curves=learning_curves(results),
        differences=effect_chart(results),
        facts=_facts(results),
        tables=tables,
        more={words.get(name, name): tables.arms(results, name) for name in more},
        pairs=tables.pairs(results),
        hardest=listed([results.strata[name] for name in results.hardest]),
        headlines=conclusions(results),
    )
    write_html(directory / PAGE, html)
    return directory / PAGE


def _facts(results: ComparisonResults) -> dict[str, str]:
    first = next(iter(results.registrations), None)
    return {
        "Comparison": results.file.name,
        "Preset": results.preset,
        "Stages": str(results.stages),
        "Seeds": ", ".join(map(str, results.file.seeds)),
        "Stage 0": "one of each seed, shared by arms that train it alike",
        "Test set": count(results.instances, "instance"),
        **({"Registered": first.at.replace("T", " ").replace("+00:00", " UTC")} if first else {}),
        # Sums of time and tokens would count a shared stage 0 in each curriculum.
        **tables.provenance(results.made.model_copy(update={"seconds": 0.0, "tokens": 0.0})),
    }


def conclusions(results: ComparisonResults) -> list[str]:
    """Return who ends ahead of or behind whom in each rate on the test set, by p-values that Holm's method
    adjusts; then what is missing, and the cost."""
    pairs = [pair for pair in results.pairs if pair.adjusted]
    if not any(arm.seeds for arm in results.arms):
        return ["No curriculum has finished yet.", *_trouble(results)]
    if not pairs:
        reason = "One arm has finished."
        if sum(bool(arm.seeds) for arm in results.arms) > 1:
            reason = "No baseline has finished yet with a seed of another arm."
        return [f"{reason} There is nothing to compare with.", *_trouble(results)]
    rates = [_conclusion(pairs, rate, word) for rate, word in rate_names(results.best).items()]
    alone = any(len(pair.seeds) == 1 for pair in pairs)
    caution = ["Differences of one seed say nothing of how other training runs would fare."] if alone else []
    but = ", but for the primary one" if results.file.primary else ""
    adjusted = f"p-values are adjusted for the number of differences, after Holm{but}."
    return [*rates, adjusted, *caution, *_trouble(results), _cost(results)]


def _conclusion(pairs: Sequence[Pair], rate: Figure, word: str) -> str:
    rows = sorted(pairs, key=lambda pair: -pair.differences[rate].value)
    sentences = []
    for base in dict.fromkeys(pair.minus for pair in pairs):
        parts = []
        for pair in (row for row in rows if row.minus == base):
            effect, p = pair.differences[rate], pair.adjusted[rate]
            place = "ahead" if effect.value > 0 else "behind"
            written = f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"
            proven = f"{pair.arm} is {place} by {estimate(effect)} ({written})"
            parts.append(proven if p < ALPHA else f"{pair.arm} {estimate(effect)}, not shown ({written})")
        sentences.append(f"Against {base}, in {word} rate on the test set: {'; '.join(parts)}.")
    return " ".join(sentences)


def _trouble(results: ComparisonResults) -> list[str]:
    """Return the arms with designs that were not used, and the runs that are missing."""
    lines = [
        f"{arm.label} trained on {arm.designs_used} of the {arm.designs_asked} designs that it was asked for:"
        " its other stages kept the config before."
        for arm in results.arms
        if arm.designs_used < arm.designs_asked
    ]
    if waiting := sum(child.state == "waiting" for child in results.children):
        lines.append(f"{waiting} of {len(results.children)} curricula are not finished.")
    for state in ("failed", "unreadable"):
        names = [child.name for child in results.children if child.state == state]
        lines += [f"{state.capitalize()}: {listed(names)}."] if names else []
    return lines


def _cost(results: ComparisonResults) -> str:
    spent = [f"{arm.label} {short_count(arm.spent.tokens)}" for arm in results.arms if arm.spent]
    return f"Tokens of a run, training and engineer: {', '.join(spent)}."
