"""Tables of results, as the terminal shows them."""

from rich.table import Table

from flows.commands.terminal import number_table
from infra.comparison.page import conclusions
from infra.comparison.plan import count_instances, plan
from infra.comparison.results import ComparisonResults
from infra.comparison.spec import ComparisonSpec
from infra.figures import sampled
from infra.formats import count, narrow, rate_names
from infra.results import CurriculumResults
from infra.tables import BASE, overview, rates


def rates_table(results: CurriculumResults, best: str | None) -> Table:
    """Rates of the base policy and of every stage, with intervals; `best` is the environment's word for
    the second one, None if it has none."""
    # At most 80 columns, so that no terminal cuts an interval, unless all answers are right.
    test = f", test on {results.test_start.overall.instances}" if results.test_start else ""
    title = f"Validation on {results.start.overall.instances} instances{test}"
    caption = "95 % intervals; changes: paired, since the base policy"
    headings = [heading for word in rate_names(best).values() for heading in (f"{word} %", "change")]
    table = number_table(["after", *headings], title, caption, min_width=79)
    for policy, *numbers in rates(results, best).itertuples(index=False, name=None):
        above, _, label = policy.replace(BASE, "start").rpartition(", ")
        label = f"  {label.removesuffix(' set')}" if above else label.removeprefix("after ")
        table.add_row(label, *map(narrow, numbers))
    return table


def comparison_table(results: ComparisonResults) -> Table:
    """Arms side by side; the page has tokens and time too."""
    rows = overview(results).drop(columns=["tokens", "time"])
    title = (
        f"{results.comparison}: {count(results.stages, 'stage')}, {count(results.instances, 'test instance')}"
    )
    lines = [
        "Valid rate on the test set at the end; minus: points, paired by seed and instance. [95 % intervals],"
        f" unadjusted, over {sampled(results.arms)}. Designs: used of asked for.",
        *conclusions(results),
    ]
    headings = [{"valid": "valid %", "designs used": "designs"}.get(name, str(name)) for name in rows.columns]
    table = number_table(headings, title, "\n".join(lines))
    table.caption_justify = "left"
    for row in rows.itertuples(index=False, name=None):
        table.add_row(*(cell if isinstance(cell, str) else narrow(cell) or "-" for cell in row))
    return table


def plan_table(spec: ComparisonSpec) -> Table:
    """The differences that a comparison can show, in points."""
    rows = plan(spec)
    title = f"Smallest difference in points that {count(count_instances(spec.base), 'test instance')} show"
    caption = (
        "With 80 % power at 5 %. Assumed standard deviations, in points: between runs as in the columns,"
        " of changes between instances 25, of the rest 40"
    )
    table = number_table(list(rows.columns), title, caption)
    for row in rows.itertuples(index=False, name=None):
        table.add_row(*row)
    return table
