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
    """Rates of the base policy and of every stage; `best`: the word for optimal answers, None without any."""
    # At most 80 columns, so that no terminal cuts an interval, unless all answers are right.
    test = f", test on {results.test_start.overall.instances}" if results.test_start else ""
    title = f"Validation on {results.start.overall.instances} instances{test}"
    caption = "95 % intervals; changes: paired, since the base policy"
    headings = [heading for word in rate_names(best).values() for heading in (f"{word} %", "change")]
    rows = []
    for policy, *numbers in rates(results, best).itertuples(index=False, name=None):
        above, _, label = policy.replace(BASE, "start").rpartition(", ")
        label = f"  {label.removesuffix(' set')}" if above else label.removeprefix("after ")
        rows.append([label, *map(narrow, numbers)])
    return number_table(["after", *headings], title, caption, rows, min_width=79)


def comparison_table(results: ComparisonResults) -> Table:
    """Arms side by side."""
    frame = overview(results)
    size = f"{count(results.stages, 'stage')}, {count(results.instances, 'test instance')}"
    lines = [
        "Valid rate on the test set at the end; minus: points, paired by seed and instance. [95 % intervals],"
        f" unadjusted, over {sampled(results.arms)}. Designs: used of asked for.",
        *conclusions(results),
    ]
    headings = list(frame.columns.to_series().replace({"valid": "valid %", "designs used": "designs"}))
    rows = frame.map(lambda cell: cell if isinstance(cell, str) else narrow(cell) or "-").to_numpy().tolist()
    table = number_table(headings, f"{results.file.name}: {size}", "\n".join(lines), rows)
    table.caption_justify = "left"
    return table


def plan_table(spec: ComparisonSpec) -> Table:
    """The differences that a comparison can show, in points."""
    frame = plan(spec)
    title = f"Smallest difference in points that {count(count_instances(spec.base), 'test instance')} show"
    caption = (
        "With 80 % power at 5 %. Assumed standard deviations, in points: between runs as in the columns,"
        " of changes between instances 25, of the rest 40"
    )
    return number_table(list(frame.columns), title, caption, frame.to_numpy().tolist())
