"""What `envwright benchmark` prints: rates with intervals, and the published rates beside them."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from envgen.suites import ALL, Published
from envgen.terminal import printable
from infra.analysis.benchmark.results import BenchmarkResults, Score
from infra.analysis.formats import label, narrow

KINDS = ("valid", "optimal")
WIDTH = 62
"""Columns of a terminal that a table has at least, so that what is below it stays on one line."""


def benchmark_tables(results: BenchmarkResults) -> list[Table]:
    """Those of the benchmark, and the published rates where they are of all groups that occur."""
    benchmark = results.benchmark
    shown = [one for one in benchmark.published if set() < {*results.labels(one.kind)} <= one.labels]
    return [
        *(_rates(results, *kinds) for kinds in benchmark.tables),
        *(_published(results, one, f"below the line: {benchmark.mark}") for one in shown),
    ]


def closing_lines(results: BenchmarkResults) -> list[str]:
    """What went wrong first in the answers that are not valid, and what all answers took."""
    overall = results.overall
    failures = [f"{label(category)} {number:,}" for category, number in overall.failures.items() if number]
    took = (
        f"{overall.completion_tokens:,} tokens in {results.seconds:,.0f} s; {overall.truncated:,} of"
        f" {overall.n:,} answers were cut off at the token limit"
    )
    return [f"failures: {', '.join(failures) or 'none'}", took]


def _rates(results: BenchmarkResults, rows: str, columns: str) -> Table:
    """Valid rates, then optimal ones; a column for each group of a kind. Four fit into 79 columns of a
    terminal."""
    what = f"{printable(results.asked.model)} on {printable(results.asked.data)}"
    title = f"{what}, {results.overall.n:,} instances by {rows} and {columns}"
    heads = _with_all(results.labels(columns))
    table = _table(title, "95 % Wilson intervals", ["", *heads])
    for kind in KINDS:
        table.add_row(Text(f"{kind} %", style="bold"))
        for row in _with_all(results.labels(rows)):
            scores = [results.score({rows: row, columns: head}) for head in heads]
            table.add_row(row, *(narrow(score and getattr(score, f"{kind}_rate")) for score in scores))
        table.add_section()
    return table


def _with_all(labels: list[str]) -> list[str]:
    return labels if len(labels) == 1 else [*labels, ALL]


def _published(results: BenchmarkResults, published: Published, caption: str) -> Table:
    found = results.labels(published.kind)
    heads = [*found, ALL] if {*found, ALL} == published.labels else found
    table = _table(published.title, caption, ["", *heads])
    ours = [results.score({published.kind: head}) for head in heads]
    table.add_row(_this(results), *(_cell(score, published.optimal) for score in ours if score))
    table.add_section()
    for whose, rates in published.rates.items():
        table.add_row(whose, *(rates.get(head, "") for head in heads))
    return table


def _cell(score: Score, optimal: bool) -> str:
    valid, best = 100 * score.valid_rate.value, 100 * score.optimal_rate.value
    return f"{valid:.2f} / {best:.2f}" if optimal else f"{valid:.1f}"


def _this(results: BenchmarkResults) -> Text:
    """The row of this run; its intervals are in the tables above."""
    return Text(f"this run: {printable(results.asked.model)[-30:]}", style="bold")


def _table(title: str, caption: str, heads: Sequence[str]) -> Table:
    table = Table(
        title=Text(title),
        caption=Text(caption),
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=0,
        min_width=WIDTH,
    )
    for index, name in enumerate(heads):
        table.add_column(Text(printable(name)), justify="right" if index else "left", no_wrap=True)
    return table
