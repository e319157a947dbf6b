"""What commands print: tables and trees."""

from rich.table import Table

from envgen.breakdown import Difference, Rate
from flows.commands.terminal import number_table
from infra.analysis.comparison.page import conclusion, conclusion_of_best
from infra.analysis.results import ComparisonResults
from infra.figures import sampled
from infra.formats import narrow, rate_names
from infra.results import CurriculumResults
from infra.tables import BASE, arms, rates

SPARED = ("time", "tokens", "seeds")
"""Columns of a comparison that a narrow terminal does without, the first first; its page has them all."""
_HEADINGS = {"engineer variant": "engineer", "at the end": "final %"}
"""Shorter headings of columns."""


def rates_table(results: CurriculumResults, best: str | None) -> Table:
    """Rates of the base policy and of every stage, with intervals; `best` is the environment's word for
    the second one, None if it has none."""
    # At most 80 columns, so that no terminal cuts an interval, unless all answers are right.
    title = f"Validation on {results.start.overall.n} instances"
    caption = "95 % intervals; changes: paired, since the base policy"
    headings = [heading for word in rate_names(best).values() for heading in (f"{word} %", "change")]
    table = number_table(["after", *headings], title, caption, min_width=79)
    for policy, *numbers in rates(results, best).itertuples(index=False, name=None):
        table.add_row("start" if policy == BASE else policy.removeprefix("after "), *map(narrow, numbers))
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
    table = number_table(headings, title, _caption(results), ("rate",))
    table.caption_justify = "left"
    label = table.columns[0]
    label.no_wrap, label.overflow, label.min_width = False, "fold", 14
    for arm, seeds, rate, final, *numbers in rows.itertuples(index=False, name=None):
        first = [arm, seeds, rate] if rate == "valid" else ["", "", _short(rate)]
        table.add_row(*first, narrow(final) or "-", *map(_cell, numbers))
    return table


def _caption(results: ComparisonResults) -> str:
    """What the table's columns are, who is ahead, and which curricula failed."""
    best = f", and {results.best} ones ({_short(results.best)})" if results.best else ""
    bases = ", ".join(f"to {base}" for base in results.differences("valid"))
    differences = f" {bases}: points, paired by seed and instance." if bases else ""
    failed = ", ".join(child.name for child in results.failed)
    lines = [
        f"Valid answers{best} in % at the end;"
        f"{differences} [95 % intervals] over {sampled(results.arms)}. Tokens and time: a run, without the"
        " shared stage 0.",
        conclusion(results),
        conclusion_of_best(results),
        f"! failed: {failed}." if failed else "",
    ]
    return "\n".join(filter(None, lines))


def _short(rate: str) -> str:
    """A word for a rate in the room that the table has."""
    return rate if len(rate) <= 3 else f"{rate[:3]}."


def _cell(cell: Rate | Difference | str | None) -> str:
    return cell if isinstance(cell, str) else narrow(cell)
