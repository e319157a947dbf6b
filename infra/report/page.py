"""Write `report.html`: one self-contained page about a curriculum, for people."""

import logging
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from engineer.gate import BASE_POLICY
from envgen.breakdown import format_alarms
from envgen.environment import Environment
from envgen.errors import RunDirectoryError
from envgen.estimates import Difference, Rate
from envgen.space import Space
from infra import figures, formats, tables
from infra.config.settings import run_name
from infra.formats import count, interval, percent, points
from infra.report.examples import before_and_after
from infra.results import CurriculumResults
from infra.run_status import resume_command
from infra.runs.files import REPORT, RESULTS, ROLLOUTS, TRAINING_LOG
from infra.runs.run import Run
from infra.summary import advice, headlines, notes
from policy.rollouts import Rollout

log = logging.getLogger("envwright")

COMPLETION_CHARACTERS = 2_000
"""Characters of a completion on the page, from its end, where the answer stands."""
_FILTERS = (formats.percent, formats.share, formats.count, formats.duration, formats.label, formats.listed)


def write_report(run: Path) -> Path:
    """Write `run/report.html` from the files of its stages, and return its path.

    RunDirectoryError if there are no results, DataError if the last stage's rollouts cannot be read.
    """
    files = Run(directory=run)
    results = files.read(RESULTS)
    if not results.stages:
        nothing = f"{run}: results.json holds no finished stage"
        raise RunDirectoryError(f"{nothing}; finish one with 'envwright run {results.preset}', then report")
    preset, last = files.preset, results.stages[-1]
    space, samples = preset.space, preset.evaluation.samples
    first, final = (files.read(ROLLOUTS, number)[::samples] for number in (BASE_POLICY, last.stage))
    page = environment().get_template("report.html.j2")
    html = page.render(
        results=results,
        last=last,
        space=space,
        rates=formats.rate_names(space.best),
        headlines=headlines(results, space.best),
        advice=advice(results, files),
        notes=notes(results),
        facts=_facts(results),
        category_colours=figures.category_colours(space),
        rate_colours=figures.RATE_COLOURS,
        configs=tables.configs(space, results),
        figures=_figures(space, results),
        alarms=format_alarms(space, last.breakdown),
        tables=tables,
        training=_training_charts(files, results),
        gallery=before_and_after(space, first, final),
        samples=samples,
        picture=partial(_picture, preset.task),
        picture_legend=preset.task.picture_legend,
        question=lambda instance: preset.task.prompt(instance, preset.prompt_style),
        longest=COMPLETION_CHARACTERS,
        commands=[resume_command(run), shlex.join(["envwright", "report", run_name(run)])],
    )
    files.write(REPORT, html)
    return files.path(REPORT)


def environment(*folders: Path) -> jinja2.Environment:
    """Return the templates and filters of pages; templates in `folders` are found first."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {write.__name__: write for write in (*_FILTERS, cell)}
    return environment


def cell(value: Any) -> Any:
    """Return a cell of a table as HTML; a difference whose interval holds zero is grey."""
    if value is None:
        return "–"
    if isinstance(value, Difference):
        style = Markup(' class="none"') if value.low <= 0 <= value.high else ""
        written = points(value.value)
        return Markup('<span{}>{}</span><span class="ci">{}</span>').format(style, written, interval(value))
    if isinstance(value, Rate):
        return Markup('{}<span class="ci">{}</span>').format(percent(value.value), interval(value))
    if isinstance(value, tables.Change):
        if not value.changed:
            return Markup('<span class="none">{}</span>').format(value.text)
        return Markup("<s>{} →</s> {}").format(value.old or "none", value.new or "none")
    return value


def _facts(results: CurriculumResults) -> dict[str, str]:
    return {
        "Curriculum": results.curriculum,
        "Preset": results.preset,
        "Engineer": results.engineer,
        "Context": results.context,
        "Seed": str(results.seed),
        "Validation set": count(results.start.overall.instances, "instance"),
        **tables.provenance(results.made),
    }


def _drawn(draw: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what `draw` returns; a note in its place if it fails, so that the page has all else."""
    try:
        return draw(*args, **kwargs)
    except Exception as error:
        log.warning("a picture of the report could not be drawn", exc_info=True)
        return Markup('<p class="none">Could not be drawn: {}</p>').format(f"{type(error).__name__}: {error}")


def _figures(space: Space, results: CurriculumResults) -> dict[str, Any]:
    """Return the charts over stages: `rates` and `strata` by name, and `failures`."""
    overall = [breakdown.overall for breakdown in results.breakdowns]
    policies = ["start", *(f"stage {stage.stage}" for stage in results.stages)]
    strata = {
        name: [breakdown.strata[name] for breakdown in results.breakdowns if name in breakdown.strata]
        for name in results.start.strata
    }
    rates, top = formats.rate_names(space.best), max(map(figures.axis_top, strata.values()))
    words = f"{formats.listed(list(rates.values())).capitalize()} rate"
    return {
        "rates": {
            name: _drawn(
                figures.rate_chart, f"{word} rate by stage", overall, [name], top=figures.axis_top(overall)
            )
            for name, word in rates.items()
        },
        "failures": _drawn(figures.failure_bars, space, dict(zip(policies, overall, strict=True))),
        "strata": {
            name: _drawn(
                figures.rate_chart,
                f"{words} on {space.label(name)} by stage",
                parts,
                list(rates),
                top=top,
                size=figures.PANEL,
            )
            for name, parts in strata.items()
        },
    }


def _training_charts(run: Run, results: CurriculumResults) -> dict[int, tuple[Markup, Markup]]:
    """Return reward and share of groups without variance by stage, where there is a training log."""
    logs = {}
    for stage in results.stages:
        if run.has(TRAINING_LOG, stage.stage) and (log := run.read(TRAINING_LOG, stage.stage))["step"]:
            logs[stage.stage] = {
                name: np.array(log[name], dtype=float) for name in ("step", "reward", "zero_variance")
            }
    rewards = np.concatenate([log["reward"] for log in logs.values()] or [np.zeros(1)])
    rewards = rewards[np.isfinite(rewards)]
    low, high = (float(rewards.min()), float(rewards.max())) if len(rewards) else (0.0, 1.0)
    margin = 0.05 * (high - low) or 0.1
    limits = low - margin, high + margin
    reward = "Mean reward over the steps of stage {}"
    groups = "Share of groups without reward variance over the steps of stage {}"
    return {
        stage: (
            _drawn(figures.training_chart, reward.format(stage), log["step"], log["reward"], limits),
            _drawn(figures.training_chart, groups.format(stage), log["step"], log["zero_variance"]),
        )
        for stage, log in logs.items()
    }


def _picture(task: Environment, rollout: Rollout) -> Markup | None:
    """Return an answer as a drawing, if the environment draws any."""
    drawn = _drawn(task.picture, rollout.instance, rollout.completion, rollout.verdict)
    return None if drawn is None else Markup(drawn)
