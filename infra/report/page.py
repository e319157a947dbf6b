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
    """Write `run/report.html` from the files of its stages, and return its path; RunDirectoryError if there
    are no results, DataError if the last stage's rollouts cannot be read."""
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
    """Return templates and filters; templates in `folders` are found first. All escape HTML but templates of
    Markdown, TOML and Python files."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=jinja2.select_autoescape(disabled_extensions=["md.j2", "toml.j2", "py.j2"], default=True),
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
    words = formats.rate_names(space.best)
    both = f"{formats.listed(list(words.values())).capitalize()} rate"
    draw = partial(_drawn, figures.rate_chart)
    large = {"top": figures.axis_top(overall)}
    small = {"top": max(map(figures.axis_top, strata.values())), "size": figures.PANEL}
    return {
        "rates": {
            rate: draw(f"{word} rate by stage", overall, [rate], **large) for rate, word in words.items()
        },
        "failures": _drawn(figures.failure_bars, space, dict(zip(policies, overall, strict=True))),
        "strata": {
            name: draw(f"{both} on {space.label(name)} by stage", parts, list(words), **small)
            for name, parts in strata.items()
        },
    }


def _training_charts(run: Run, results: CurriculumResults) -> dict[int, list[Markup]]:
    """Return reward and share of groups without signal by stage, where there is a training log."""
    stages = [stage.stage for stage in results.stages if run.has(TRAINING_LOG, stage.stage)]
    logs = {number: run.read(TRAINING_LOG, number) for number in stages}
    rewards = np.array([reward for log in logs.values() for reward in log["reward"]] or [0.0], dtype=float)
    low, high = float(np.nanmin(rewards)), float(np.nanmax(rewards))
    margin = 0.05 * (high - low) or 0.1
    charts = {
        "reward": ("Mean reward", (low - margin, high + margin)),
        "zero_variance": ("Share of groups without signal", None),
    }
    return {
        stage: [
            _drawn(
                figures.training_chart,
                f"{title} over the steps of stage {stage}",
                log["step"],
                log[name],
                axis,
            )
            for name, (title, axis) in charts.items()
        ]
        for stage, log in logs.items()
    }


def _picture(task: Environment, rollout: Rollout) -> Markup | None:
    """Return an answer as a drawing, if the environment draws any."""
    drawn = _drawn(task.picture, rollout.instance, rollout.completion, rollout.verdict)
    return None if drawn is None else Markup(drawn)
