"""Write `report.html`: one self-contained page about a curriculum, for people."""

import shlex
from functools import partial
from pathlib import Path

import jinja2
import numpy as np
from markupsafe import Markup

from engineer.behaviour import budgets
from engineer.gate import name_of
from envgen.breakdown import wilson
from envgen.environment import Environment, Instance, constant_rates
from envgen.errors import ConfigError, RunDirectoryError
from envgen.space import Space
from infra.analysis import formats
from infra.analysis.report import charts, examples, tables, text
from infra.analysis.run_status import run_name
from infra.config.preset import Preset
from infra.runs.results import CurriculumResults
from infra.runs.run import Run, run_command
from infra.runs.stage import Stage
from policy.rollouts import Rollout

REPLAYS = 12
SHOWN_CHARACTERS = 2_000
"""Characters shown of an answer, from its end: that is where what it says at last is."""
_FILTERS = (
    *("percent", "share", "setting", "interval", "points", "points_interval", "count", "short_count"),
    *("duration", "label", "listed"),
)


def write_report(run: Path) -> Path:
    """Write `run/report.html` from what the stages left in `run`, and return its path.

    RunDirectoryError if there are no results, DataError if the last stage's rollouts cannot be read.
    """
    files = Run(directory=run)
    results = files.results
    if not results.stages:
        nothing = f"{run}: results.json holds no finished stage"
        raise RunDirectoryError(f"{nothing}; finish one with 'envwright run {results.preset}', then report")
    preset, last = files.curriculum.preset, results.stages[-1]
    space = preset.space
    rollouts = files.stage(last.stage).rollouts
    start = files.start.rollouts if files.start.has(Stage.rollouts) else []
    configs = [*(stage.config for stage in results.stages), last.proposal.config]
    found = budgets(configs)
    shares = {name: found[name] for name in formats.named_strata(space, configs)}
    page = environment().get_template("report.html.j2")
    shown = page.render(
        results=results,
        last=last,
        space=space,
        rates=formats.rate_names(space.best),
        words=formats.number_words(space),
        headline=text.headline(results),
        best_headline=text.best_headline(results, space.best) if space.best else "",
        palette=charts.palette(space),
        category_colour=partial(charts.category_colour, space),
        stratum_colour=partial(charts.stratum_colour, space),
        configs=configs,
        strata=list(shares),
        figures=_figures(space, results, shares),
        guesses=_guesses(preset.task, rollouts),
        numbers=tables.stratum_rows(space, results),
        training=_training_charts(files, results),
        changes=partial(formats.changes_between, space),
        config_changes=partial(formats.config_changes, space),
        budgets=shares,
        replays=examples.choose(space, rollouts, REPLAYS),
        gallery=examples.before_and_after(space, start, rollouts),
        picture=partial(_picture, preset.task),
        question=lambda instance: preset.task.prompt(instance, preset.prompt_style),
        longest=SHOWN_CHARACTERS,
        failed=sum(rollout.verdict.category is not None for rollout in rollouts),
        made=tables.made_with(results.made),
        commands=_commands(run, results, preset),
    )
    files.write(Run.report, shown)
    return files.path(Run.report)


def environment(*folders: Path) -> jinja2.Environment:
    """Templates and filters of the report; templates in `folders` are found first."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for name in _FILTERS:
        environment.filters[name] = getattr(formats, name)
    environment.globals |= {"wilson": wilson, "name_of": name_of}
    return environment


def _figures(
    space: Space, results: CurriculumResults, shares: dict[str, tuple[float, ...]]
) -> dict[str, object]:
    """The charts over stages: `rates`, `failures`, `budgets`, and `strata` by name."""
    breakdowns = [results.start, *(stage.breakdown for stage in results.stages)]
    overall = [breakdown.overall for breakdown in breakdowns]
    strata = {
        name: [breakdown.strata[name] for breakdown in breakdowns if name in breakdown.strata]
        for name in results.start.strata
    }
    top, rates = max(map(charts.axis_top, strata.values())), formats.rate_names(space.best)
    said = f"{formats.listed(list(rates.values())).capitalize()} rate"
    return {
        "rates": {
            name: charts.rate_chart(f"{word} rate by stage", overall, name, top=charts.axis_top(overall))
            for name, word in rates.items()
        },
        "failures": charts.failure_chart("Share of answers per failure category by stage", space, overall),
        "budgets": charts.budget_chart(f"Share of the data per {space.noun} by stage", space, shares),
        "strata": {
            name: charts.stratum_chart(f"{said} on {space.label(name)} by stage", space, parts, top=top)
            for name, parts in strata.items()
        },
    }


def _guesses(family: Environment, rollouts: list[Rollout]) -> dict[str, float]:
    """Stratum -> what one answer to all its questions would get, where instances have one answer as text."""
    instances = [one.instance for one in rollouts if isinstance(one.instance, Instance)]
    if not instances:
        return {}
    try:
        return constant_rates(family, instances)
    except ConfigError:  # the file of a generator is gone, or another one
        return {}


def _training_charts(run: Run, results: CurriculumResults) -> dict[int, tuple[Markup, Markup]]:
    """Reward and share of groups without variance per stage; a stage without a training log is left out."""
    logs = {}
    for stage in results.stages:
        files = run.stage(stage.stage)
        if files.has(Stage.train_log) and (log := files.train_log)["step"]:
            logs[stage.stage] = {
                name: np.array(log[name], dtype=float) for name in ("step", "reward", "zero_variance")
            }
    rewards = np.concatenate([log["reward"] for log in logs.values()] or [np.zeros(1)])
    rewards = rewards[np.isfinite(rewards)]
    low, high = (float(rewards.min()), float(rewards.max())) if len(rewards) else (0.0, 1.0)
    margin = 0.05 * (high - low) or 0.1
    limits = low - margin, high + margin
    over = "over the steps of stage"
    unlearned = "Share of groups without reward variance"
    return {
        stage: (
            charts.training_chart(f"Mean reward {over} {stage}", log["step"], log["reward"], limits),
            charts.training_chart(f"{unlearned} {over} {stage}", log["step"], log["zero_variance"]),
        )
        for stage, log in logs.items()
    }


def _picture(task: Environment, rollout: Rollout) -> Markup | None:
    """An answer drawn, if the family draws any."""
    drawn = task.picture(rollout.instance, rollout.completion, rollout.verdict)
    return None if drawn is None else Markup(drawn)


def _commands(run: Path, results: CurriculumResults, preset: Preset) -> list[str]:
    """How to run the same curriculum again, and to write this page again."""
    again = run_command(results.curriculum, preset, len(results.stages))
    return [again, shlex.join(["envwright", "report", run_name(run)])]
