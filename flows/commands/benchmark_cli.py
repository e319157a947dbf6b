"""`envwright benchmark`: a model on the benchmark suite, or on the public data set."""

from typing import Annotated

import typer
from pydantic import Field
from rich.console import Console
from rich.table import Table
from rich.text import Text

from envgen.suites import ALL, Published
from envgen.terminal import console, printable, say
from flows.commands.options import takes_options
from flows.commands.terminal import JSON, number_table, print_json, show_log
from flows.parameters import OptionsForm
from infra.benchmark.results import BenchmarkResults, Score
from infra.benchmark.spec import BenchmarkSpec, benchmark_directory, planned
from infra.formats import label, narrow
from infra.runs.files import ROLLOUTS
from policy.chat.engine_config import EngineConfig
from policy.checkpoints import check_hub, check_model

KINDS = ("valid", "optimal")
WIDTH = 62
"""Columns of a terminal that a table has at least, so that what is below it stays on one line."""
Model = Annotated[
    str,
    typer.Argument(
        help="tiny, a checkpoint directory, a hub id, or base_url#model of an OpenAI-compatible endpoint."
    ),
]


class BenchmarkOptions(OptionsForm, EngineConfig):
    """How a model is asked; an endpoint runs its own engine."""

    data: str | None = None
    """Instances other than the shipped suite: a data set (.parquet), or the hub id of the public data set."""
    style: str | None = None
    """Prompt style, as compact, in which the tiny policy was taught; left out, the context of a checkpoint
    decides."""
    answer_tokens: int | None = Field(default=None, ge=8, le=100_000)
    """Longest answer: 8,192, or 128 in the compact style, if left out."""
    limit: int | None = Field(default=None, ge=1, le=1_000_000)
    """Largest number of instances of each group; all if left out."""


@takes_options(BenchmarkOptions)
def benchmark(model: Model, options: BenchmarkOptions, json_: JSON = False) -> None:
    """Measure valid and optimal rate of any model on the 3,150 instances of the benchmark suite.

    Rates have 95 % intervals and stand beside the published rates.

    Example: `envwright benchmark tiny`
    """
    chosen = options.model_dump()
    engine = EngineConfig(**{name: chosen.pop(name) for name in EngineConfig.model_fields if name in chosen})
    spec = planned(BenchmarkSpec(model=model, engine=engine, **chosen))
    if not spec.endpoint:
        check_model(spec.model)
        check_hub(spec.model)
    directory = benchmark_directory(spec)
    say(f"{spec.model} on {spec.asks}: {spec.style} prompts, answers of up to {spec.answer_tokens:,} tokens")
    from tasks.benchmark import answer_all

    show_log()
    results = answer_all(directory, spec)
    if json_:
        return print_json(results)
    for table in benchmark_tables(results):
        Console(width=max(console.width, 79)).print(table, "")
    for line in closing_lines(results):
        say(line)
    say(f"results: {directory / 'benchmark.json'}, answers: {directory / ROLLOUTS.name}")


def benchmark_tables(results: BenchmarkResults) -> list[Table]:
    """Those of the benchmark, and the published rates where they are of all groups that occur."""
    benchmark = results.benchmark
    rows = [table for table in benchmark.published() if set() < {*results.labels(table.kind)} <= table.labels]
    return [
        *(_rates(results, *kinds) for kinds in benchmark.tables),
        *(_published(results, table, f"below the line: {benchmark.mark}") for table in rows),
    ]


def closing_lines(results: BenchmarkResults) -> list[str]:
    """What went wrong first in the answers that are not valid, and what all answers took."""
    overall = results.overall
    failures = [f"{label(category)} {number:,}" for category, number in overall.failures.items() if number]
    tokens = "unknown" if overall.completion_tokens is None else f"{overall.completion_tokens:,}"
    cut_off = f"{overall.truncated:,} of {overall.n:,} answers were cut off at the token limit"
    took = f"{tokens} tokens in {results.seconds:,.0f} s; {cut_off}"
    return [f"failures: {', '.join(failures) or 'none'}", took]


def _rates(results: BenchmarkResults, rows: str, columns: str) -> Table:
    """Return valid rates, then optimal ones, with a column for each group of a kind."""
    what = f"{results.spec.model} on {results.spec.asks}"
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
    this = Text(f"this run: {printable(results.spec.model)[-30:]}", style="bold")
    scores = [results.score({published.kind: head}) for head in heads]
    table.add_row(this, *(_cell(score, published.optimal) for score in scores if score))
    table.add_section()
    for model, rates in published.rates.items():
        table.add_row(model, *(rates.get(head, "") for head in heads))
    return table


def _cell(score: Score, optimal: bool) -> str:
    valid, best = 100 * score.valid_rate.value, 100 * score.optimal_rate.value
    return f"{valid:.2f} / {best:.2f}" if optimal else f"{valid:.1f}"
