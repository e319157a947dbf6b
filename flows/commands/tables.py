"""Tables of results, as the terminal shows them."""

from rich.table import Table

from flows.commands.terminal import number_table
from infra.analysis.comparison.page import conclusions
from infra.analysis.results import ComparisonResults
from infra.figures import sampled
from infra.formats import narrow, rate_names
from infra.results import CurriculumResults
from infra.tables import BASE, ON_TEST, arms, rates

SPARED = ("time", "tokens", "seeds")
"""Columns of a comparison that a narrow terminal does without, the first first; its page has them all."""
_HEADINGS = {"engineer variant": "engineer", "at the end": "final %"}
"""Shorter headings of columns."""


def rates_table(results: CurriculumResults, best: str | None) -> Table:
    """Rates of the base policy and of every stage, with intervals; `best` is the environment's word for
    the second one, None if it has none."""
    # At most 80 columns, so that no terminal cuts an interval, unless all answers are right.
    test = f", test on {results.test_start.overall.n}" if results.test_start else ""
    title = f"Validation on {results.start.overall.n} instances{test}"
    caption = "95 % intervals; changes: paired, since the base policy"
    headings = [heading for word in rate_names(best).values() for heading in (f"{word} %", "change")]
    table = number_table(["after", *headings], title, caption, min_width=79)
    for policy, *numbers in rates(results, best).itertuples(index=False, name=None):
        label = "start" if policy == BASE else policy.removeprefix("after ")
        table.add_row("  test" if label.endswith(ON_TEST) else label, *map(narrow, numbers))
    return table


def comparison_table(results: ComparisonResults) -> Table:
    """Engineer variants side by side, at most 100 columns wide; without what is `SPARED`, at most 80."""
    rows = arms(results)
    shared = {
        "one": f"shared stage 0 of seed {results.stage0_seed}",
        "per-seed": "a shared stage 0 of each seed",
    }
    judged = f"{results.stages} stages, validation on {results.instances} instances"
    title = f"{results.comparison}: {judged}, {shared[results.stage_0]}"
    headings = [_HEADINGS.get(name) or name.replace("against", "to") for name in rows.columns]
    failed = ", ".join(child.name for child in results.failed)
    lines = [
        "Final: at the end; to another engineer: points, paired by seed and instance. [95 % intervals] over"
        f" {sampled(results.arms)}. Tokens and time: a run, with the shared stage 0.",
        *conclusions(results),
        f"! failed: {failed}." if failed else "",
    ]
    table = number_table(headings, title, "\n".join(filter(None, lines)), ("rate",))
    table.caption_justify = "left"
    for arm, seeds, rate, final, *numbers in rows.itertuples(index=False, name=None):
        first = [arm, seeds, rate] if rate == "valid" else ["", "", f"{rate[:3]}."]
        cells = [cell if isinstance(cell, str) else narrow(cell) for cell in numbers]
        table.add_row(*first, narrow(final) or "-", *cells)
    return table
