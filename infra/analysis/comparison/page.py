"""`comparison.html`, and the conclusion of a comparison in words."""

from collections.abc import Mapping
from pathlib import Path

from envgen.files import write_html
from infra import tables
from infra.analysis.results import BASELINES, ComparisonResults, RateName
from infra.analysis.statistics import Effect
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
        headlines=[conclusion(results), conclusion_of_best(results)],
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


def conclusion(results: ComparisonResults) -> str:
    """Return who ends ahead of each baseline, by how much, and who cannot be told from it; without a
    baseline, of each other arm."""
    if not any(arm.valid for arm in results.arms):
        return "No curriculum has finished yet."
    if not results.pairs:
        return "One engineer variant has finished: there is nothing to compare it with."
    return _conclusions(results, "valid", "valid")


def conclusion_of_best(results: ComparisonResults) -> str:
    """Return the same for the optimal rate, which may differ; empty without it."""
    return _conclusions(results, "optimal", results.best) if results.best else ""


def _conclusions(results: ComparisonResults, rate: RateName, word: str) -> str:
    pairs = [pair for pair in results.pairs if pair.minus in BASELINES] or results.pairs
    effects = {
        minus: {pair.arm: getattr(pair, rate) for pair in pairs if pair.minus == minus}
        for minus in dict.fromkeys(pair.minus for pair in pairs)
    }
    return " ".join(_conclusion(base, word, of_base) for base, of_base in effects.items())


def _conclusion(base: str, word: str, effects: Mapping[str, Effect]) -> str:
    ordered = sorted(effects.items(), key=lambda item: -item[1].value)
    groups = {
        "ahead of it": [f"{name} by {estimate(effect)}" for name, effect in ordered if effect.sign > 0],
        "behind it": [f"{name} by {estimate(effect)}" for name, effect in ordered if effect.sign < 0],
        "not told apart from it": [name for name, effect in ordered if not effect.sign],
    }
    parts = [f"{group}: {listed(arms)}" for group, arms in groups.items() if arms]
    return f"Against {base}, in {word} rate at the end: {'; '.join(parts)}."
