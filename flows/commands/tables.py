"""What commands print: tables and trees."""

from rich.table import Table

from engineer.gate import name_of
from engineer.proposal import Proposal
from envgen.breakdown import Difference, Rate
from flows.commands.terminal import number_table
from infra.analysis.comparison.page import conclusion, conclusion_of_best
from infra.analysis.results import ComparisonResults
from infra.figures import sampled
from infra.formats import narrow, rate_names
from infra.results import CurriculumResults
from infra.tables import BASE, arms, rates

KEPT = ", the previous config is kept"
SPARED = ("time", "tokens", "area", "seeds")
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
    for arm, seeds, rate, final, area, *numbers in rows.itertuples(index=False, name=None):
        first = [arm, seeds, rate] if rate == "valid" else ["", "", _short(rate)]
        table.add_row(
            *first, narrow(final) or "-", f"{100 * area.value:.1f}" if area else "-", *map(_cell, numbers)
        )
    return table


def _caption(results: ComparisonResults) -> str:
    """What the table's columns are, who is ahead, and which curricula failed."""
    best = f", and {results.best} ones ({_short(results.best)})" if results.best else ""
    bases = ", ".join(f"to {base}" for base in results.differences("valid"))
    differences = f" {bases}: points, paired by seed and instance." if bases else ""
    failed = ", ".join(child.name for child in results.failed)
    lines = [
        f"Valid answers{best}; final: at the end; area: mean height of the curve from stage 0 on, in %;"
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


def closing_lines(results: CurriculumResults) -> list[str]:
    """What a person should know at the end: drops and what followed, configs that were kept and why, what the
    engineer used."""
    lines = []
    for stage in results.stages:
        reason = stage.proposal.fallback
        if stage.gate.dropped:
            lines.append(f"stage {stage.stage}: {stage.gate.reason}")
        if stage.decision:
            lines.append(f"stage {stage.stage}: the proposal was {stage.decision}")
        if reason is not None and not stage.overruled:
            # The headline says it once; the reasons say it too, each in its sentence.
            lines.append(f"stage {stage.stage}: the previous config was kept: {reason.replace(KEPT, '')}")
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
