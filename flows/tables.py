"""What commands print: tables and trees."""

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.tree import Tree

from engineer.gate import name_of
from engineer.proposal import Proposal
from envgen.breakdown import Breakdown, Difference
from envgen.errors import RunDirectoryError
from infra.comparison import text
from infra.comparison.results import ComparisonResults
from infra.lineage import Ancestor
from infra.report.text import with_interval
from infra.results import CurriculumResults

KEPT = ", the previous config is kept"


def rates_table(results: CurriculumResults) -> Table:
    """Valid and optimal rate of the start policy and of every stage, with intervals."""
    n = results.start.overall.n
    caption = "95 % intervals; changes: paired, since the start policy"
    # At most 79 columns, so that no terminal cuts an interval.
    table = Table(title=f"Validation on {n} instances", caption=caption, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0), min_width=79)
    for name in ("after", "valid %", "change", "optimal %", "change"):
        table.add_column(name, justify="left" if name == "after" else "right", no_wrap=True)
    _row(table, "start", results.start, None, None)
    for stage in results.stages:
        _row(table, f"stage {stage.stage}", stage.breakdown, stage.valid_gain, stage.optimal_gain)
    return table


def comparison_table(results: ComparisonResults) -> Table:
    """Engineer variants side by side, at most 100 columns wide."""
    table = Table(title=text.title(results), caption=text.caption(results), caption_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 0))
    for name in text.HEADINGS:
        words = name in ("engineer", "rate")
        table.add_column(name, justify="left" if words else "right", no_wrap=name != "engineer", overflow="fold", min_width=14 if name == "engineer" else None)
    for row in text.rows(results):
        table.add_row(*row)
    return table


def closing_lines(results: CurriculumResults) -> list[str]:
    """What a person should know at the end: drops and what followed, configs that were kept and why, what the engineer used."""
    lines = []
    for stage in results.stages:
        kept = stage.proposal.fallback
        if stage.gate and stage.gate.dropped:
            lines.append(f"stage {stage.stage}: {stage.gate.reason}")
        if stage.decision:
            lines.append(f"stage {stage.stage}: the proposal was {stage.decision}")
        if kept is not None and not stage.overruled:
            # The headline says it once; the reasons say it too, each in its sentence.
            lines.append(f"stage {stage.stage}: the previous config was kept: {kept.replace(KEPT, '')}")
    if results.final.stage != results.stages[-1].stage:
        lines.append(f"the run ends with {name_of(results.final.stage)}")
    return lines + _usage([proposal for stage in results.stages for proposal in (stage.proposal, *stage.rejected)])


def _usage(proposals: list[Proposal]) -> list[str]:
    prompt, completion, requests = (sum(getattr(p, name) for p in proposals) for name in ("prompt_tokens", "completion_tokens", "requests"))
    if not prompt + completion + requests:
        return []
    costs = [p.cost for p in proposals if p.cost is not None]
    used = [f"{prompt} prompt tokens", f"{completion} completion tokens"]
    used += [f"{requests} requests"] if requests else []
    used += [f"cost {sum(costs):.4g}"] if costs else []
    return ["engineer: " + ", ".join(used)]


def lineage_tree(checkpoint: Path, chain: list[Ancestor]) -> Tree:
    """The ancestry of a checkpoint as a tree, newest first; RunDirectoryError if it is unknown."""
    if not chain:
        raise RunDirectoryError(f"{checkpoint}: MLflow knows no such checkpoint; check the path, and MLFLOW_TRACKING_URI or ENVWRIGHT_RUNS")
    tree = Tree(f"[bold]{chain[0].checkpoint}[/bold]")
    node = tree
    for index, ancestor in enumerate(chain):
        if index:
            node = node.add(f"trained from [bold]{ancestor.checkpoint}[/bold]")
        node.add(f"path {ancestor.path}")
        for context, dataset in sorted(ancestor.datasets.items()):
            if index + 1 < len(chain):
                node.add(f"{context} data {dataset}")
        for name, value in sorted(ancestor.tags.items()):
            node.add(f"{name} {value}")
        rates = [f"{name} {ancestor.metrics[name]:.1%}" for name in ("valid", "optimal") if name in ancestor.metrics]
        if rates:
            node.add("validation " + ", ".join(rates))
    return tree


def _row(table: Table, name: str, breakdown: Breakdown, valid: Difference | None, optimal: Difference | None) -> None:
    overall = breakdown.overall
    table.add_row(name, with_interval(overall.valid_rate), with_interval(valid, "+"), with_interval(overall.optimal_rate), with_interval(optimal, "+"))
