"""`study.md` and its pictures, made from the stored answers of a study and nothing else."""

import json
from pathlib import Path

from envgen.errors import DataError
from envgen.files import read_text, write_text
from envgen.mapf.verifier import FailureCategory
from infra.analysis.formats import UNDEFINED, label, markdown_table
from infra.analysis.report.build import environment
from infra.analysis.results import BASELINES
from infra.analysis.study import text
from infra.analysis.study.figures import EFFECTS, write_figures
from infra.analysis.study.findings import RoundFindings, find
from infra.analysis.study.records import CURRICULA, RoundData, read_round
from infra.analysis.study.spec import StudySpec
from infra.config.preset import load_preset

PAGE, FOLDER, LEARNED, REGISTRATION = "study.md", "study", "learned.md", "registration.md"
COPIED = (REGISTRATION, "policies.md")
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
    write_figures(output / FOLDER, found)
    if data.resolve() != (output / FOLDER).resolve():
        for name in COPIED:
            if (data / name).exists():
                write_text(output / FOLDER / name, read_text(data / name))
    templates = environment(Path(__file__).parent).overlay(autoescape=False)
    kinds = {one.number: text.token_kinds(one) for one in found}
    page = templates.get_template("study.md.j2").render(
        spec=spec,
        preset=load_preset(spec.preset),
        rounds=found,
        missing=[one.number for one in spec.rounds if one.number not in {have.number for have in found}],
        registered={one.number: spec.registered(spec.round(one.number)) == one.registered for one in found},
        said={one.number: _said(spec, one.number) for one in found},
        headlines={one.number: _headline(spec, one) for one in found},
        registration=REGISTRATION if (data / REGISTRATION).exists() else "",
        learned=read_text(data / LEARNED).strip() if (data / LEARNED).exists() else "",
        baselines=BASELINES,
        effects=EFFECTS,
        text=text,
        table=markdown_table,
        round_headings=[f"round {one.number}" for one in found],
        config_headings={one.number: _stages(one) for one in found},
        token_headings={number: [f"tokens, {kind}" for kind in shown] for number, shown in kinds.items()},
        failure_names=[label(category) for category in FailureCategory],
    )
    write_text(output / PAGE, page)
    return output / PAGE


def _round(data: Path, spec: StudySpec, number: int) -> RoundData:
    found, registered = read_round(data, number), spec.round(number)
    stored, arms = found.stored, set(spec.arms(registered))
    if (stored.study, stored.round) != (spec.name, number):
        holds = f"{data}: round-{number} holds round {stored.round} of study {stored.study}"
        raise DataError(f"{holds}, not round {number} of {spec.name}")
    same = {"arms": arms == {*stored.arms}, "seeds": {*registered.seeds} == {*stored.seeds}}
    if stored.registered == spec.registered(registered) and (
        changed := [name for name, is_so in same.items() if not is_so]
    ):
        other = f"{data}: round-{number} has other {' and '.join(changed)} than were registered"
        raise DataError(f"{other} under its own digest; take the files of one run")
    if missing := {registered.primary, *BASELINES} - set(stored.arms):
        lacks = f"{data}: round-{number} lacks the arms {', '.join(sorted(missing))}"
        raise DataError(f"{lacks}; take the files of one run")
    return found


def _stages(found: RoundFindings) -> list[str]:
    """The stages after stage 0."""
    return [f"stage {stage}" for stage in range(1, len(text.conducts(found.arms)[0][1].configs))]


def _headline(spec: StudySpec, found: RoundFindings) -> list[str]:
    primary = spec.round(found.number).primary
    return [
        text.verdict(found, primary, base, alone=base == "random")
        for base in BASELINES
        if primary in found.against[base]
    ]


def _said(spec: StudySpec, number: int) -> dict[str, str]:
    """What the spec of a round says of it, for the table of all rounds."""
    one, comparison = spec.round(number), spec.comparison(spec.round(number))
    presets = [comparison.preset, *(arm.preset for arm in comparison.arms if arm.preset)]
    training = [f"{p.stages} stages of {p.instances:,} instances, {p.epochs:g} epochs each" for p in presets]
    changed = [f"`{field}` {json.dumps(value)}" for field, value in one.settings.items() if field != "model"]
    return {
        "primary arm": f"`{one.primary}`",
        "base policy": f"`{comparison.preset.model}`",
        "training": "; or ".join(dict.fromkeys(training)),
        "instead of the preset's": ", ".join(changed) or UNDEFINED,
    }
