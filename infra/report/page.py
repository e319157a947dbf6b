"""Write `report.html`: one self-contained page about a curriculum, for people."""

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jinja2
import numpy as np
from markupsafe import Markup

from engineer.gate import BASE_POLICY, name_of
from envgen.breakdown import Difference, Rate
from envgen.environment import Environment, Instance, constant_rates
from envgen.errors import ConfigError, RunDirectoryError
from envgen.space import Space
from infra import figures, formats, tables
from infra.formats import SPACE, count, interval, percent, points
from infra.report import examples
from infra.results import CurriculumResults
from infra.run_status import run_name
from infra.runs.files import CURRICULUM, REPORT, RESULTS, ROLLOUTS, TRAINING_LOG
from infra.runs.run import Run, run_command
from policy.rollouts import Rollout

REPLAYS = 12
SHOWN_CHARACTERS = 2_000
"""Characters shown of an answer, from its end: that is where what it says at last is."""
_FILTERS = (formats.percent, formats.share, formats.count, formats.duration, formats.label, formats.listed)


def write_report(run: Path) -> Path:
    """Write `run/report.html` from what the stages left in `run`, and return its path.

    RunDirectoryError if there are no results, DataError if the last stage's rollouts cannot be read.
    """
    files = Run(directory=run)
    results = files.read(RESULTS)
    if not results.stages:
        nothing = f"{run}: results.json holds no finished stage"
        raise RunDirectoryError(f"{nothing}; finish one with 'envwright run {results.preset}', then report")
    preset, last = files.read(CURRICULUM).preset, results.stages[-1]
    space = preset.space
    rollouts = files.read(ROLLOUTS, last.stage)
    start = files.read(ROLLOUTS, BASE_POLICY) if files.has(ROLLOUTS, BASE_POLICY) else []
    configs = [*(stage.config for stage in results.stages), last.proposal.config]
    named = tables.named_strata(space, configs)
    shares = {name: tuple(config.shares.get(name, 0.0) for config in configs) for name in named}
    page = environment().get_template("report.html.j2")
    html = page.render(
        results=results,
        last=last,
        space=space,
        rates=formats.rate_names(space.best),
        headlines=headlines(results, space.best),
        facts=_facts(results),
        labels={name: space.label(name) for name, of_stratum in shares.items() if max(of_stratum) > 0},
        categories={name: formats.label(name) for name in space.categories},
        category_colours=figures.category_colours(space),
        stratum_colours=figures.stratum_colours(space),
        rate_colours=figures.RATE_COLOURS,
        configs=configs,
        shares=shares,
        figures=_figures(space, results, shares),
        tables=tables,
        guesses=_guesses(preset.task, rollouts),
        training=_training_charts(files, results),
        replays=examples.choose(space, rollouts, REPLAYS),
        gallery=examples.before_and_after(space, start, rollouts),
        picture=partial(_picture, preset.task),
        question=lambda instance: preset.task.prompt(instance, preset.prompt_style),
        longest=SHOWN_CHARACTERS,
        failed=sum(rollout.verdict.category is not None for rollout in rollouts),
        commands=[
            run_command(results.curriculum, preset, len(results.stages)),
            shlex.join(["envwright", "report", run_name(run)]),
        ],
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
    environment.filters |= {write.__name__: write for write in (*_FILTERS, tables.cell)}
    return environment


def _facts(results: CurriculumResults) -> dict[str, str]:
    return {
        "Curriculum": results.curriculum,
        "Preset": results.preset,
        "Engineer": results.engineer,
        "Context variant": results.variant,
        "Seed": str(results.seed),
        "Validation set": count(results.start.overall.n, "instance"),
        **tables.provenance(results.made),
    }


def headlines(results: CurriculumResults, best: str | None) -> list[str]:
    """Return what the curriculum did to the valid rate, and to the optimal rate if the environment has one.

    Each is a sentence that claims no more than its interval."""
    number, policy, valid, optimal = results.final
    before, after, stages = results.start.overall, policy.overall, len(results.stages)
    where = "Valid rate on the validation set"
    sentences = [_change(where, before.valid_rate, after.valid_rate, valid, stages)]
    if number != results.stages[-1].stage:
        sentences[0] += f" The gate rolled back: the run ends with {name_of(number)}."
    if best:
        what = f"{best.capitalize()} rate"
        sentences.append(_change(what, before.optimal_rate, after.optimal_rate, optimal, stages))
    return sentences


def _change(what: str, before: Rate, after: Rate, gain: Difference, stages: int) -> str:
    sentence = (
        f"{what} went from {percent(before.value)} to {percent(after.value)} over {count(stages, 'stage')}: "
        f"{points(gain.value)}{SPACE}points, 95{SPACE}% interval {interval(gain)}"
    )
    if gain.low <= 0 <= gain.high:
        return f"{sentence}, which includes zero: no gain is shown."
    return f"{sentence}." if gain.value > 0 else f"{sentence}: a loss."


def _figures(
    space: Space, results: CurriculumResults, shares: dict[str, tuple[float, ...]]
) -> dict[str, object]:
    """Return the charts over stages: `rates` and `strata` by name, `failures` and `shares`."""
    breakdowns = [results.start, *(stage.breakdown for stage in results.stages)]
    overall = [breakdown.overall for breakdown in breakdowns]
    strata = {
        name: [breakdown.strata[name] for breakdown in breakdowns if name in breakdown.strata]
        for name in results.start.strata
    }
    rates, top = formats.rate_names(space.best), max(map(figures.axis_top, strata.values()))
    words = f"{formats.listed(list(rates.values())).capitalize()} rate"
    return {
        "rates": {
            name: figures.rate_chart(f"{word} rate by stage", overall, [name], top=figures.axis_top(overall))
            for name, word in rates.items()
        },
        "failures": figures.failure_chart("Share of answers per failure category by stage", space, overall),
        "shares": figures.share_chart(f"Share of the data per {space.noun} by stage", space, shares),
        "strata": {
            name: figures.rate_chart(
                f"{words} on {space.label(name)} by stage", parts, list(rates), top=top, size=figures.PANEL
            )
            for name, parts in strata.items()
        },
    }


def _guesses(task: Environment, rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Return by stratum what one answer to all its questions would get, if answers are texts."""
    instances = [rollout.instance for rollout in rollouts if isinstance(rollout.instance, Instance)]
    try:
        return constant_rates(task, instances) if instances else {}
    except ConfigError:  # the file of a generator is gone, or another one
        return {}


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
    return {
        stage: (
            figures.training_chart(
                f"Mean reward over the steps of stage {stage}",
                log["step"],
                log["reward"],
                (low - margin, high + margin),
            ),
            figures.training_chart(
                f"Share of groups without reward variance over the steps of stage {stage}",
                log["step"],
                log["zero_variance"],
            ),
        )
        for stage, log in logs.items()
    }


def _picture(task: Environment, rollout: Rollout) -> Markup | None:
    """Return an answer as a drawing, if the environment draws any."""
    drawn = task.picture(rollout.instance, rollout.completion, rollout.verdict)
    return None if drawn is None else Markup(drawn)
