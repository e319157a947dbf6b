"""`study.md` and its pictures, made from the stored answers of a study and nothing else."""

import json
from pathlib import Path

from envgen.errors import DataError
from envgen.files import read_text, write_text
from infra.analysis.comparison.results import BASELINES
from infra.analysis.report.build import environment
from infra.analysis.study import text
from infra.analysis.study.figures import EFFECTS, write_figures
from infra.analysis.study.findings import RoundFindings, find
from infra.analysis.study.records import CURRICULA, RoundData, read_round
from infra.analysis.study.spec import StudySpec
from infra.preset import Preset, load_preset

PAGE, FOLDER, LEARNED, REGISTRATION = "study.md", "study", "learned.md", "registration.md"
COPIED = (REGISTRATION, "policies.md")
"""Texts beside the data that are copied to where the pictures are; the first links to the others."""


def write_page(output: Path, data: Path, spec: StudySpec) -> Path:
    """Write `study.md` and the pictures under `study/` for all rounds that `data` holds; the path of the page.

    DataError where there is no round, a file of one is missing or damaged, or it belongs to another study.
    """
    read = [_round(data, spec, one.number) for one in spec.rounds if (data / one.folder / CURRICULA).exists()]
    if not read:
        raise DataError(f"{data}: holds no round of study {spec.name}; run the study, or give the folder of its data")
    found = [find(one) for one in read]
    write_figures(output / FOLDER, found)
    if data.resolve() != (output / FOLDER).resolve():
        for name in COPIED:
            if (data / name).exists():
                write_text(output / FOLDER / name, read_text(data / name))
    templates = environment(Path(__file__).parent).overlay(autoescape=False)
    page = templates.get_template("study.md.j2").render(
        spec=spec,
        preset=load_preset(spec.preset),
        rounds=found,
        missing=[one.number for one in spec.rounds if one.number not in {have.number for have in found}],
        registered={one.number: spec.registered(spec.round(one.number)) == one.registered for one in found},
        primary={one.number: one.primary for one in spec.rounds},
        models={one.number: spec.start(spec.round(one.number)) for one in found},
        training={one.number: _training(spec, one.number) for one in found},
        changed={one.number: _changed(spec, one.number) for one in found},
        headlines={one.number: _headline(spec, one) for one in found},
        registration=REGISTRATION if (data / REGISTRATION).exists() else "",
        learned=read_text(data / LEARNED).strip() if (data / LEARNED).exists() else "",
        baselines=BASELINES,
        effects=EFFECTS,
        text=text,
    )
    write_text(output / PAGE, page)
    return output / PAGE


def _round(data: Path, spec: StudySpec, number: int) -> RoundData:
    found = read_round(data, number)
    if (found.stored.study, found.stored.round) != (spec.name, number):
        raise DataError(f"{data}: round-{number} holds round {found.stored.round} of study {found.stored.study}, not round {number} of {spec.name}")
    registered, stored = spec.round(number), found.stored
    parts = {"arms": ({arm for arm, _, _ in spec.arms(registered)}, {*stored.arms}), "seeds": ({*registered.seeds}, {*stored.seeds})}
    if stored.registered == spec.registered(registered) and (changed := [name for name, (ours, theirs) in parts.items() if ours != theirs]):
        raise DataError(f"{data}: round-{number} has other {' and '.join(changed)} than were registered under its own digest; take the files of one run")
    if missing := {spec.round(number).primary, *BASELINES} - set(found.stored.arms):
        raise DataError(f"{data}: round-{number} lacks the arms {', '.join(sorted(missing))}; take the files of one run")
    return found


def _headline(spec: StudySpec, found: RoundFindings) -> list[str]:
    primary = spec.round(found.number).primary
    return [text.verdict(found, primary, base, alone=base == "random") for base in BASELINES if base in found.arm(primary).against]


def _changed(spec: StudySpec, number: int) -> list[str]:
    """What all arms of a round have instead of the preset's, but the start policy."""
    return [f"`{field}` {json.dumps(value)}" for field, value in spec.round(number).settings.items() if field != "model"]


def _training(spec: StudySpec, number: int) -> list[str]:
    """What a stage of a round trains on, a sentence for each different amount."""
    one = spec.round(number)
    presets: list[Preset] = [spec.comparison(one, group).preset for group in one.groups]
    return list(dict.fromkeys(f"{preset.stages} stages of {preset.instances:,} instances, {preset.epochs:g} epochs each" for preset in presets))
