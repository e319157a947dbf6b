"""What `envwright benchmark` prints: rates with intervals, and the published rates beside them."""

from collections.abc import Callable, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from envgen.mapf.benchmark import AGENTS, EVERYTHING, SUBSETS
from envgen.terminal import printable
from infra.analysis.benchmark.published import MARK, MODELS, VARIANTS
from infra.analysis.benchmark.results import BenchmarkResults, Score
from infra.analysis.formats import label, narrow

Cell = Callable[[str | int | None], Score | None]
KINDS = ("valid", "optimal")
BELOW = f"below the line: {MARK}"


def benchmark_tables(results: BenchmarkResults) -> list[Table]:
    """By agents and wait subset, by agents and map size, and the published rows where they are about the same
    numbers of agents."""
    tables = [_by_subset(results), _by_size(results)]
    if set(results.agents) <= set(AGENTS):
        tables.append(_published_models(results))
    if set(SUBSETS) <= set(results.subsets):
        tables.append(_published_variants(results))
    return tables


def closing_lines(results: BenchmarkResults) -> list[str]:
    """What went wrong first in the answers that are not valid, and what all answers took."""
    overall = results.overall
    failures = [f"{label(category)} {number:,}" for category, number in overall.failures.items() if number]
    took = (
        f"{overall.completion_tokens:,} tokens in {results.seconds:,.0f} s; {overall.truncated:,} of"
        f" {overall.n:,} answers were cut off at the token limit"
    )
    return [f"failures: {', '.join(failures) or 'none'}", took]


def _by_subset(results: BenchmarkResults) -> Table:
    subsets = [subset for subset in results.subsets if subset != EVERYTHING]
    title = (
        f"{printable(results.asked.model)} on {printable(results.asked.data)}, {results.overall.n:,}"
        " instances"
    )
    heads: list[tuple[str, str | None]] = [*((subset, subset) for subset in subsets), ("all", None)]
    rows = [
        (f"{agents} agents", lambda subset, agents=agents: results.score(subset=subset, agents=agents))
        for agents in results.agents
    ]
    together = [("all", lambda subset: results.score(subset=subset))] if len(rows) > 1 else []
    return _rates(title, "", heads, [*rows, *together])


def _by_size(results: BenchmarkResults) -> Table:
    heads: list[tuple[str, int | None]] = [(f"{agents} agents", agents) for agents in results.agents]
    heads += [("all", None)] if len(heads) > 1 else []
    rows = [
        (f"{size}x{size}", lambda agents, size=size: results.score(agents=agents, size=size))
        for size in results.sizes
    ]
    return _rates("By map size", "95 % Wilson intervals", heads, rows)


def _rates(
    title: str,
    caption: str,
    heads: Sequence[tuple[str, str | int | None]],
    rows: Sequence[tuple[str, Callable]],
) -> Table:
    """Valid rates, then optimal ones; a column for each head. Four heads fit into 79 columns of a
    terminal."""
    table = _table(title, caption, ["", *(name for name, _ in heads)])
    for kind in KINDS:
        table.add_row(Text(f"{kind} %", style="bold"))
        for name, cell in rows:
            scores = [cell(key) for _, key in heads]
            table.add_row(name, *(narrow(score and getattr(score, f"{kind}_rate")) for score in scores))
        table.add_section()
    return table


def _published_models(results: BenchmarkResults) -> Table:
    table = _table(
        "Valid / optimal %, beside published rates",
        BELOW,
        ["", *(f"{agents} agents" for agents in results.agents)],
    )
    ours = [results.score(agents=agents) for agents in results.agents]
    table.add_row(
        _this(results),
        *(
            f"{100 * score.valid_rate.value:.2f} / {100 * score.optimal_rate.value:.2f}"
            for score in ours
            if score
        ),
    )
    table.add_section()
    for model, rates in MODELS.items():
        table.add_row(
            model, *(f"{rates[agents][0]:.2f} / {rates[agents][1]:.2f}" for agents in results.agents)
        )
    return table


def _published_variants(results: BenchmarkResults) -> Table:
    table = _table("Valid % by wait subset, beside published context variants", BELOW, ["", *SUBSETS, "all"])
    ours = [results.score(subset=subset) for subset in (*SUBSETS, None)]
    table.add_row(_this(results), *(f"{100 * score.valid_rate.value:.1f}" for score in ours if score))
    table.add_section()
    for name, valid, overall in VARIANTS:
        table.add_row(
            name, *(f"{valid[subset]:.1f}" if subset in valid else "" for subset in SUBSETS), f"{overall:.2f}"
        )
    return table


def _this(results: BenchmarkResults) -> Text:
    """The row of this run; its intervals are in the tables above."""
    return Text(f"this run: {printable(results.asked.model)[-30:]}", style="bold")


def _table(title: str, caption: str, heads: Sequence[str]) -> Table:
    table = Table(
        title=Text(title),
        caption=Text(caption) if caption else None,
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=0,
        min_width=len(BELOW),
    )
    for index, name in enumerate(heads):
        table.add_column(Text(printable(name)), justify="right" if index else "left", no_wrap=True)
    return table
