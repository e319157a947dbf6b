"""Write `report.html`: one self-contained page about a curriculum, for people."""

import shlex
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from engineer.behaviour import budgets
from engineer.gate import name_of
from envgen.breakdown import wilson
from envgen.errors import RunDirectoryError
from envgen.mapf.verifier import FailureCategory
from infra.analysis import formats
from infra.analysis.report import behaviour, charts, failures, proposals, text
from infra.runs.results import CurriculumResults
from infra.runs.run import Run
from infra.runs.stage import Stage

REPLAYS = 12


def write_report(run: Path) -> Path:
    """Write `run/report.html` from what the stages left in `run`, and return its path.

    Raises RunDirectoryError if there are no results, DataError if the last stage's rollouts cannot be read.
    """
    files = Run(directory=run)
    results = files.results
    if not results.stages:
        raise RunDirectoryError(f"{run}: results.json holds no finished stage; finish one with 'envwright run {results.preset}', then report")
    rollouts = files.stage(results.stages[-1].stage).rollouts
    configs = [*(stage.config for stage in results.stages), results.stages[-1].proposal.config]
    shares = budgets(configs)
    page = (
        environment()
        .get_template("report.html.j2")
        .render(
            results=results,
            last=results.stages[-1],
            headline=text.headline(results),
            optimal_headline=text.optimal_headline(results),
            palette=charts.PALETTE,
            configs=configs,
            heat_sizes=sorted({size for config in configs for size in config.sizes}),
            categories=list(FailureCategory),
            figures=_figures(results, shares),
            training=_training_charts(files, results),
            cards=proposals.cards(results),
            behaviour=behaviour.rows(results),
            budgets=shares,
            replays=failures.replays(rollouts, REPLAYS),
            failed=sum(rollout.verdict.category is not None for rollout in rollouts),
            commands=_commands(results),
        )
    )
    files.write(Run.report, page)
    return files.path(Run.report)


def environment(*folders: Path) -> Environment:
    """Templates and filters of the report; templates in `folders` are found first."""
    environment = Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for name in ("percent", "share", "interval", "points", "points_interval", "count", "short_count", "claims", "duration"):
        environment.filters[name] = getattr(formats, name)
    environment.filters["label"] = formats.label
    environment.globals |= {"wilson": wilson, "name_of": name_of}
    return environment


def _figures(results: CurriculumResults, shares: dict[int, tuple[float, ...]]) -> dict[str, object]:
    """The charts over stages: `rates`, `failures`, `budgets`, and `sizes` by map size."""
    breakdowns = [results.start, *(stage.breakdown for stage in results.stages)]
    overall = [breakdown.overall for breakdown in breakdowns]
    by_size = {size: [breakdown.sizes[size] for breakdown in breakdowns if size in breakdown.sizes] for size in results.start.sizes}
    top = max(map(charts.axis_top, by_size.values()))
    return {
        "rates": {name: charts.rate_chart(f"{name} rate by stage", overall, name, top=charts.axis_top(overall)) for name in ("valid", "optimal")},
        "failures": charts.failure_chart("Share of answers per failure category by stage", overall),
        "budgets": charts.budget_chart("Share of the data per map size by stage", shares),
        "sizes": {size: charts.size_chart(f"Valid and optimal rate on map size {size} by stage", parts, top=top) for size, parts in by_size.items()},
    }


def _training_charts(run: Run, results: CurriculumResults) -> dict[int, tuple[Markup, Markup]]:
    """Reward and share of groups without variance per stage; a stage without a training log is left out."""
    logs = {}
    for stage in results.stages:
        files = run.stage(stage.stage)
        if files.has(Stage.train_log) and (log := files.train_log)["step"]:
            logs[stage.stage] = {name: np.array(log[name], dtype=float) for name in ("step", "reward", "zero_variance")}
    rewards = np.concatenate([log["reward"] for log in logs.values()] or [np.zeros(1)])
    rewards = rewards[np.isfinite(rewards)]
    limits = (float(rewards.min()), float(rewards.max())) if len(rewards) else (0.0, 1.0)
    return {stage: _training_pair(stage, log, limits) for stage, log in logs.items()}


def _training_pair(stage: int, log: dict[str, np.ndarray], limits: tuple[float, float]) -> tuple[Markup, Markup]:
    margin = 0.05 * (limits[1] - limits[0]) or 0.1
    wider = limits[0] - margin, limits[1] + margin
    reward = charts.training_chart(f"Mean reward over the steps of stage {stage}", log["step"], log["reward"], colour=charts.INK, limits=wider, rate=False)
    title = f"Share of groups without reward variance over the steps of stage {stage}"
    variance = charts.training_chart(title, log["step"], log["zero_variance"], colour=charts.PALETTE["conflict"], limits=(0, 1), rate=True)
    return reward, variance


def _commands(results: CurriculumResults) -> list[str]:
    """How to run the same curriculum again, and to write this page again."""
    arguments = ["--engineer", results.designer, "--variant", results.variant, "--stages", str(len(results.stages)), "--seed", str(results.seed)]
    return [shlex.join(["envwright", "run", results.preset, *arguments]), shlex.join(["envwright", "report", results.curriculum])]
