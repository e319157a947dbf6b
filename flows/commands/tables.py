"""What commands print: tables and trees."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from engineer.gate import name_of
from engineer.proposal import Proposal
from envgen.breakdown import Difference, Rate
from infra.analysis.comparison import page
from infra.analysis.formats import narrow, rate_names
from infra.analysis.results import ComparisonResults
from infra.runs.results import CurriculumResults

KEPT = ", the previous config is kept"
SPARED = ("time", "tokens", "area", "seeds")
"""Columns of a comparison that a narrow terminal does without, the first first; its page has them all."""


def rates_table(results: CurriculumResults, best: str | None) -> Table:
    """Rates of the base policy and of every stage, with intervals; `best` is the family's word for the second
    one, None if it has none."""
    n = results.start.overall.n
    caption = "95 % intervals; changes: paired, since the base policy"
    # At most 80 columns, so that no terminal cuts an interval, unless all answers are right.
    table = Table(
        title=f"Validation on {n} instances",
        caption=caption,
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 0),
        min_width=79,
    )
    rates = rate_names(best)
    table.add_column("after", no_wrap=True)
    for word in rates.values():
        table.add_column(f"{word} %", justify="right", no_wrap=True)
        table.add_column("change", justify="right", no_wrap=True)
    start = [(getattr(results.start.overall, f"{rate}_rate"), None) for rate in rates]
    table.add_row("start", *_cells(start))
    for stage in results.stages:
        pairs = [
            (getattr(stage.breakdown.overall, f"{rate}_rate"), getattr(stage, f"{rate}_gain"))
            for rate in rates
        ]
        table.add_row(f"stage {stage.stage}", *_cells(pairs))
    return table


def _cells(pairs: Sequence[tuple[Rate, Difference | None]]) -> list[str]:
    """A cell for each rate, and one for its change."""
    return [cell for rate, change in pairs for cell in (narrow(rate), narrow(change, gap=""))]


def comparison_table(results: ComparisonResults) -> Table:
    """Engineer variants side by side, at most 100 columns wide; without what is `SPARED`, at most 80."""
    table = _wide_table(
        page.title(results), page.caption(results), page.headings(results), ("engineer", "rate")
    )
    for row in page.rows(results):
        table.add_row(*row)
    return table


def _wide_table(title: str, caption: str, headings: Sequence[str], words: Sequence[str]) -> Table:
    """A table whose first column folds where it is too wide; columns that are not of `words` hold numbers."""
    table = Table(
        title=title,
        caption=caption,
        caption_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 0),
    )
    for place, name in enumerate(headings):
        table.add_column(
            name,
            justify="left" if name in words else "right",
            no_wrap=bool(place),
            overflow="fold",
            min_width=None if place else 14,
        )
    return table


def closing_lines(results: CurriculumResults) -> list[str]:
    """What a person should know at the end: drops and what followed, configs that were kept and why, what the
    engineer used."""
    lines = []
    for stage in results.stages:
        kept = stage.proposal.fallback
        if stage.gate.dropped:
            lines.append(f"stage {stage.stage}: {stage.gate.reason}")
        if stage.decision:
            lines.append(f"stage {stage.stage}: the proposal was {stage.decision}")
        if kept is not None and not stage.overruled:
            # The headline says it once; the reasons say it too, each in its sentence.
            lines.append(f"stage {stage.stage}: the previous config was kept: {kept.replace(KEPT, '')}")
    if results.final.stage != results.stages[-1].stage:
        lines.append(f"the run ends with {name_of(results.final.stage)}")
    return lines + _usage([stage.proposal for stage in results.stages])


def _usage(proposals: list[Proposal]) -> list[str]:
    prompt, completion, requests = (
        sum(getattr(p, name) for p in proposals)
        for name in ("prompt_tokens", "completion_tokens", "requests")
    )
    if not prompt + completion + requests:
        return []
    costs = [p.cost for p in proposals if p.cost is not None]
    used = [f"{prompt} prompt tokens", f"{completion} completion tokens"]
    used += [f"{requests} requests"] if requests else []
    used += [f"cost {sum(costs):.4g}"] if costs else []
    return ["engineer: " + ", ".join(used)]
