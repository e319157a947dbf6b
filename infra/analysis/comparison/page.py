"""`comparison.html`, and the conclusion of a comparison in words."""

from collections.abc import Sequence
from pathlib import Path

from envgen.files import write_html
from infra import tables
from infra.analysis.results import BASELINES, ComparisonResults, Pair
from infra.analysis.statistics import ALPHA, Effect, holm
from infra.figures import effect_chart, learning_curves
from infra.formats import count, estimate, listed, rate_names
from infra.report.page import environment

PAGE = "comparison.html"


def write_page(directory: Path, results: ComparisonResults) -> Path:
    """Write `comparison.html`, and return its path."""
    pairs = [pair for pair in results.pairs if pair.minus not in BASELINES]
    of_arms = (len(results.pairs) - len(pairs)) * len(rate_names(results.best))
    page = environment(Path(__file__).parent).get_template("comparison.html.j2")
    html = page.render(
        results=results,
        curves=learning_curves(results),
        differences=effect_chart(results),
        facts=_facts(results),
        rates=dict(iter(tables.arms(results).groupby("rate", sort=False))),
        pairs=tables.pairs(pairs),
        intervals=of_arms + len(pairs),
        headlines=conclusions(results),
    )
    write_html(directory / PAGE, html)
    return directory / PAGE


def _facts(results: ComparisonResults) -> dict[str, str]:
    stage_0 = {"one": f"shared, seed {results.stage0_seed}", "per-seed": "shared, one of each seed"}
    return {
        "Comparison": results.comparison,
        "Preset": results.preset,
        "Stages": str(results.stages),
        "Engineer variants": str(len(results.arms)),
        "Seeds": ", ".join(map(str, results.seeds)),
        "Stage 0": stage_0[results.stage_0],
        "Validation set": count(results.instances, "instance"),
        # Sums of time and tokens would count a shared stage 0 in each curriculum.
        **tables.provenance(results.made.model_copy(update={"seconds": 0.0, "tokens": 0.0})),
    }


def conclusions(results: ComparisonResults) -> list[str]:
    """Return for each rate who ends ahead of each baseline, by how much, and who cannot be told from it;
    without a baseline, of each other arm.

    Who is ahead or behind follows from p-values that Holm's method adjusts for the number of differences.
    """
    pairs = [pair for pair in results.pairs if pair.minus in BASELINES] or results.pairs
    if not any(arm.valid for arm in results.arms):
        return ["No curriculum has finished yet."]
    if not pairs:
        return ["One engineer variant has finished: there is nothing to compare it with."]
    return [_conclusion(pairs, rate, word) for rate, word in rate_names(results.best).items()]


def _conclusion(pairs: Sequence[Pair], rate: str, word: str) -> str:
    effects: list[Effect] = [getattr(pair, rate) for pair in pairs]
    adjusted = holm([effect.p for effect in effects])
    rows = sorted(zip(pairs, effects, adjusted, strict=True), key=lambda row: -row[1].value)
    sentences = []
    for base in dict.fromkeys(pair.minus for pair in pairs):
        groups: dict[str, list[str]] = {"ahead of it": [], "behind it": [], "not told apart from it": []}
        for pair, effect, p in (row for row in rows if row[0].minus == base):
            if p < ALPHA:
                group = "ahead of it" if effect.value > 0 else "behind it"
                groups[group].append(f"{pair.arm} by {estimate(effect)}")
            else:
                groups["not told apart from it"].append(pair.arm)
        parts = [f"{group}: {listed(arms)}" for group, arms in groups.items() if arms]
        sentences.append(f"Against {base}, in {word} rate at the end: {'; '.join(parts)}.")
    return " ".join(sentences)
