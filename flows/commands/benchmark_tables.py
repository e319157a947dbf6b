"""What `envwright benchmark` prints: rates with intervals, and the published rates beside them."""

from rich.table import Table
from rich.text import Text

from envgen.suites import ALL, Published
from envgen.terminal import printable
from flows.commands.terminal import number_table
from infra.analysis.benchmark.results import BenchmarkResults, Score
from infra.formats import label, narrow

KINDS = ("valid", "optimal")
WIDTH = 62
"""Columns of a terminal that a table has at least, so that what is below it stays on one line."""


def benchmark_tables(results: BenchmarkResults) -> list[Table]:
    """Those of the benchmark, and the published rates where they are of all groups that occur."""
    benchmark = results.benchmark
    rows = [table for table in benchmark.published if set() < {*results.labels(table.kind)} <= table.labels]
    return [
        *(_rates(results, *kinds) for kinds in benchmark.tables),
        *(_published(results, table, f"below the line: {benchmark.mark}") for table in rows),
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
    """Return valid rates, then optimal ones, with a column for each group of a kind."""
    what = f"{results.asked.model} on {results.asked.data}"
    title = f"{what}, {results.overall.n:,} instances by {rows} and {columns}"
    heads = _with_all(results.labels(columns))
    table = number_table(["", *heads], title, "95 % Wilson intervals", min_width=WIDTH)
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
    labels = results.labels(published.kind)
    heads = [*labels, ALL] if {*labels, ALL} == published.labels else labels
    table = number_table(["", *heads], published.title, caption, min_width=WIDTH)
    this = Text(f"this run: {printable(results.asked.model)[-30:]}", style="bold")
    scores = [results.score({published.kind: head}) for head in heads]
    table.add_row(this, *(_cell(score, published.optimal) for score in scores if score))
    table.add_section()
    for model, rates in published.rates.items():
        table.add_row(model, *(rates.get(head, "") for head in heads))
    return table


def _cell(score: Score, optimal: bool) -> str:
    valid, best = 100 * score.valid_rate.value, 100 * score.optimal_rate.value
    return f"{valid:.2f} / {best:.2f}" if optimal else f"{valid:.1f}"
