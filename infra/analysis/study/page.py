"""`study.md` and its pictures, made from the stored answers of a study and nothing else."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from envgen.errors import DataError
from envgen.family import Space
from envgen.files import read_text, write_text
from infra.analysis.correlation import RankCorrelation
from infra.analysis.formats import (
    POINTS,
    SPACE,
    UNDEFINED,
    count,
    difference_text,
    hundred,
    is_share,
    p_value,
    percent,
    points,
    points_interval,
    rate_text,
    signed,
)
from infra.analysis.report.build import environment
from infra.analysis.report.tables import made_with
from infra.analysis.results import baselines_of
from infra.analysis.statistics import ALPHA
from infra.analysis.study.engineers import Mean, StageConfig, measures
from infra.analysis.study.figures import CURVES, EFFECTS, write_figures
from infra.analysis.study.findings import RoundFindings, find
from infra.analysis.study.records import CURRICULA, RoundData, read_round
from infra.analysis.study.spec import StudySpec
from infra.config.preset import load_preset
from policy.checkpoints import FORMER

PAGE, FOLDER, LEARNED, REGISTRATION = "study.md", "study", "learned.md", "registration.md"
COPIED = (REGISTRATION, "policies.md")
EARLIER = "[an earlier version](study/registration.md): this one does not ship the base policy"
"""Texts beside the data that are copied to where the pictures are; the first links to the others."""


def write_page(output: Path, data: Path, spec: StudySpec) -> Path:
    """Write `study.md` and the pictures under `study/` for all rounds that `data` holds; the path of the
    page.

    DataError where there is no round, a file of one is missing or damaged, or it belongs to another study.
    """
    read = [_round(data, spec, one.number) for one in spec.rounds if (data / one.folder / CURRICULA).exists()]
    if not read:
        raise DataError(
            f"{data}: holds no round of study {spec.name}; run the study, or give the folder of its data"
        )
    found = [find(one) for one in read]
    preset, suite = load_preset(spec.preset), spec.suite
    write_figures(output / FOLDER, found, preset.task)
    if data.resolve() != (output / FOLDER).resolve():
        for name in COPIED:
            if (data / name).exists():
                write_text(output / FOLDER / name, read_text(data / name))
    templates = environment(Path(__file__).parent).overlay(autoescape=False)
    templates.filters |= {
        "rate": partial(rate_text, unit=""),
        "difference": partial(difference_text, unit=""),
        "hundred": hundred,
        "p_value": p_value,
        "code": "`{}`".format,
        "stage_of": "stage {}".format,
        "tokens_of": "tokens, {}".format,
        "dash": lambda number: UNDEFINED if number is None else number,
    }
    page = templates.get_template("study.md.j2").render(
        spec=spec,
        preset=preset,
        suite=suite,
        rounds=found,
        facts=[_facts(spec, one) for one in found],
        unfinished={one.number: _missing_seeds(spec, one) for one in found},
        missing=[one.number for one in spec.rounds if one.number not in {have.number for have in found}],
        registered={one.number: spec.registered(spec.round(one.number)) == one.registered for one in found},
        headlines={one.number: _headline(spec, one) for one in found},
        registration=REGISTRATION if (data / REGISTRATION).exists() else "",
        learned=read_text(data / LEARNED).strip() if (data / LEARNED).exists() else "",
        curves=CURVES,
        effects=EFFECTS,
        steps=_steps,
        behaviour=partial(behaviour_rows, preset.space),
        config=partial(_config, preset.space),
        rho=_rho,
    )
    write_text(output / PAGE, page)
    return output / PAGE


def _round(data: Path, spec: StudySpec, number: int) -> RoundData:
    found, registered = read_round(data, number), spec.round(number)
    stored, arms = found.stored, set(spec.arms(registered))
    if (stored.study, stored.round) != (spec.name, number):
        holds = f"{data}: round-{number} holds round {stored.round} of study {stored.study}"
        raise DataError(f"{holds}, not round {number} of {spec.name}")
    same = {"arms": arms == {*stored.arms}, "seeds": {*stored.seeds} <= {*registered.seeds}}
    if stored.registered == spec.registered(registered) and (
        changed := [name for name, is_so in same.items() if not is_so]
    ):
        other = f"{data}: round-{number} has other {' and '.join(changed)} than were registered"
        raise DataError(f"{other} under its own digest; take the files of one run")
    if missing := {registered.primary, *baselines_of(spec.arms(registered))} - set(stored.arms):
        lacks = f"{data}: round-{number} lacks the arms {', '.join(sorted(missing))}"
        raise DataError(f"{lacks}; take the files of one run")
    return found


def _missing_seeds(spec: StudySpec, found: RoundFindings) -> list[int]:
    """Registered seeds that are not complete for all arms."""
    return [seed for seed in spec.round(found.number).seeds if seed not in found.seeds]


def _headline(spec: StudySpec, found: RoundFindings) -> list[str]:
    primary = spec.round(found.number).primary
    return [
        _verdict(found, primary, base, alone=index == 0)
        for index, base in enumerate(baselines_of(spec.arms(spec.round(found.number))))
        if primary in found.against.get(base, {})
    ]


def _verdict(found: RoundFindings, arm: str, baseline: str, alone: bool) -> str:
    """What the final valid rates of an arm and a baseline show, in one sentence.

    Of a comparison that is tested `alone` the interval decides; of one of a family the p-value after Holm.
    """
    one = found.against[baseline][arm]
    rates = [found.arm(name).result.valid for name in (arm, baseline)]
    ours, theirs = (
        f"`{name}` ({percent(rate.value)})" for name, rate in zip((arm, baseline), rates, strict=True) if rate
    )
    numbers = f"{points(one.value)}{POINTS}, 95{SPACE}% interval {points_interval(one)}"
    adjusted = one.p if one.adjusted_p is None else one.adjusted_p
    holm = f"; after adjustment for {found.comparisons} comparisons p {p_value(adjusted, '= ')}"
    shown = one.sign if alone or adjusted <= ALPHA else 0
    side = {1: "above", -1: "below", 0: "not distinguishable from"}[shown]
    visible = f"at a nominal power of 80{SPACE}%, is {100 * one.detectable:.1f}{POINTS}"
    said = f"{ours} is **{side}** {theirs}: {numbers}{'' if alone else holm}."
    return f"{said} The smallest difference visible here, {visible}."


def _facts(spec: StudySpec, found: RoundFindings) -> dict[str, str]:
    """What a round consists of, for the table of all rounds."""
    one = spec.round(found.number)
    comparison = spec.comparison(one)
    presets = [comparison.preset, *(arm.preset for arm in comparison.arms if arm.preset)]
    training = [f"{p.stages} stages of {p.instances:,} instances, {p.epochs:g} epochs each" for p in presets]
    known = {"seconds": found.seconds, "tokens": found.tokens, "code": ()}
    made = made_with(found.made.model_copy(update=known))
    changed = [f"`{field}` {json.dumps(value)}" for field, value in one.settings.items() if field != "model"]
    return {
        "heading": f"round {found.number}",
        "arms": ", ".join(arm.name for arm in found.arms),
        "primary arm": f"`{one.primary}`",
        "seeds": ", ".join(map(str, found.seeds)),
        "base policy": f"`{comparison.preset.model}`",
        "stage 0": "one for all seeds" if found.stage_0 == "one" else "one for each seed",
        "training": "; or ".join(dict.fromkeys(training)),
        "instead of the preset's": ", ".join(changed) or UNDEFINED,
        "answers judged": f"{found.answers:,}",
        "made by version": ", ".join(found.code),
        "finished": made.get("Finished", UNDEFINED),
        "machine": made.get("Machine", UNDEFINED),
        "time of the steps": made.get("Time of the steps", UNDEFINED),
        "tokens, without stages 0": made.get("Tokens", UNDEFINED),
        "cost of the engineers": made.get("Cost of the engineer", UNDEFINED),
        "run again with": EARLIER
        if comparison.preset.model in FORMER
        else f"`envwright study {spec.name} --round {one.number}`",
    }


def _steps(found: RoundFindings) -> str:
    """How many optimizer steps the curricula of a round made."""
    steps = sorted({number for one in found.conducts for number in one.steps})
    if len(steps) == 1:
        return f"Every curriculum made {count(steps[0], 'optimizer step')}, stage 0 included."
    different = f"from {steps[0]:,} to {steps[-1]:,}, stage 0 included"
    return f"**The curricula made different numbers of optimizer steps**: {different}."


def behaviour_rows(space: Space, found: RoundFindings) -> list[tuple[str, ...]]:
    """A row a measure, a column an arm."""
    behaviours = [conduct.behaviour for conduct in found.conducts]
    # Rounds that ran before claims were checked have no such row.
    claims = any(one.means["true_claims"] for one in behaviours)
    measured = [
        (measure.words, *(_mean(one.means[name], measure.form) for one in behaviours))
        for name, measure in measures(space).items()
        if claims or name != "true_claims"
    ]
    asked = (f"{one.unreadable} of {one.answers}" if one.answers else UNDEFINED for one in behaviours)
    return [
        ("proposals", *(str(one.proposals) for one in behaviours)),
        *measured,
        ("previous config kept, nothing usable", *(f"{one.kept} of {one.proposals}" for one in behaviours)),
        ("changed to be legal", *(f"{one.projected} of {one.proposals}" for one in behaviours)),
        ("answers of a model that could not be read", *asked),
    ]


def _config(space: Space, config: StageConfig) -> str:
    """What a stage of an arm trained on, `TestSuite.scores` and how many different configs."""
    shares = [knob.name for knob in space.knobs if is_share(knob)]
    means = (percent(value) if name in shares else f"{value:.1f}" for name, value in config.means.items())
    return ", ".join([*means, str(config.different)])


def _mean(mean: Mean | None, form: Callable[[float], str] | None) -> str:
    if mean is None:
        return UNDEFINED
    return form(mean.value) if form else f"{signed(mean.value, 2)} (n{SPACE}={SPACE}{mean.count})"


def _rho(found: Sequence[RankCorrelation], score: str) -> str:
    for one in found:
        if one.score == score:
            return f"{signed(one.value, 2)} [{signed(one.low, 2)},{SPACE}{signed(one.high, 2)}]"
    return UNDEFINED
