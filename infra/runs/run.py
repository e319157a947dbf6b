"""A curriculum's directory: made once for one preset, resumed by the same, refused to any other."""

from pathlib import Path
from typing import Any

from envgen.errors import RunDirectoryError
from envgen.files import digest, read_model, write_json
from envgen.frozen import Frozen
from infra.preset import Preset, resolved_json
from infra.runs.results import CurriculumResults
from policy.batches import deciding_options

MODEL_FILE = "curriculum.json"
FREE_FIELDS = {"stages", "description", "approval"}
"""Fields of the preset in which a resumed run may differ."""
_WAYS = "give the name of a run, or its path with a / in it, as ./NAME"


class Curriculum(Frozen):
    """A named run of a preset; `curriculum.json` in its directory."""

    name: str
    preset: Preset
    preset_digest: str
    """Of all fields that an existing run holds fast; the same after the run was extended."""


def default_name(preset: Preset) -> str:
    """The name of a curriculum unless one is given."""
    return f"{preset.name}-{preset.design.designer}-{preset.design.variant}-s{preset.seed}"


def new_curriculum(name: str, preset: Preset) -> Curriculum:
    """The curriculum that a run of this name and preset is."""
    return Curriculum(name=name, preset=preset, preset_digest=_digest(preset))


def open_run(directory: Path, preset: Preset) -> Curriculum:
    """Claim a new run directory, or check that an existing one was made by the same preset; the curriculum with this call's number of stages.

    The number of stages may differ, so that a run can be extended, and approval may be turned on and off; left out, it stays as it was.
    Options that decide memory and speed only (`policy.train_spec.MEMORY_OPTIONS`) may differ, so that a run that ran out of memory can go on.
    RunDirectoryError names the fields that differ.
    """
    path = directory / MODEL_FILE
    wanted = new_curriculum(directory.name, preset)
    if path.exists():
        found = read_curriculum(directory)
        details = changed_fields(found.preset, preset, FREE_FIELDS)
        if details:
            raise RunDirectoryError(
                f"{directory} was made by another preset ({details}). Ways out: give this run its own name with --name, "
                f"go back to the settings of the run, or move the directory away"
            )
        approval = preset.approval or found.preset.approval
        stored = preset.model_copy(update={"approval": approval, "stages": max(found.preset.stages, preset.stages)})
        if (stored.approval, stored.stages) != (found.preset.approval, found.preset.stages):
            write_json(path, new_curriculum(directory.name, stored))
        return new_curriculum(directory.name, preset.model_copy(update={"approval": approval}))
    if directory.exists() and any(directory.iterdir()):
        raise RunDirectoryError(f"{directory} exists and is no curriculum ({MODEL_FILE} is missing); give the run another --name, or move the directory away")
    write_json(path, wanted)
    return wanted


def changed_fields(there: Preset, here: Preset, free: set[str]) -> str:
    """The fields outside `free` in which two presets differ, with both values; empty if there are none."""
    old, new = _held(there), _held(here)
    changed = sorted(field for field in new if field not in free and old.get(field) != new[field])
    return "; ".join(f"{field}: {_short(old.get(field))} there, {_short(new[field])} here" for field in changed)


def read_curriculum(directory: Path) -> Curriculum:
    """The curriculum of an existing run directory; RunDirectoryError if there is none."""
    missing = f"{directory}: no curriculum there ({MODEL_FILE} is missing); {_WAYS}"
    return read_model(directory / MODEL_FILE, Curriculum, missing, "move the directory away")


def read_results(directory: Path) -> CurriculumResults:
    """`results.json` of a run; RunDirectoryError if no stage has finished."""
    missing = f"{directory}: results.json is missing; no stage has finished yet, or this is no run: {_WAYS}"
    return read_model(directory / "results.json", CurriculumResults, missing, "run the same command again to rewrite it")


def _digest(preset: Preset) -> str:
    return digest({field: value for field, value in _held(preset).items() if field not in FREE_FIELDS})


def _held(preset: Preset) -> dict[str, Any]:
    """The preset as JSON, of engine and training only what decides answers and what is learned: a run may be continued on another machine."""
    options = deciding_options(preset.trl, preset.training)
    return {**resolved_json(preset), "engine": preset.engine.decides, "trl": options.pop("trl"), "training": options}


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
