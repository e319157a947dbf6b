"""The command that makes a run, and goes on with one that was cut off."""

import shlex

from infra.config.overrides import overrides, preset_source
from infra.config.preset import Preset
from infra.runs.run import default_name


def run_command(name: str, preset: Preset, stages: int) -> str:
    """`envwright run` of a curriculum of this name and preset with so many stages."""
    engineer = preset.engineer
    options = {"engineer": engineer.name, "variant": engineer.variant, "stages": stages, "seed": preset.seed}
    given = [part for option, value in options.items() for part in (f"--{option}", str(value))]
    given += [part for setting in overrides(preset) for part in ("--set", setting)]
    given += ["--set", "approval=required"] if preset.approval == "required" else []
    given += ["--name", name] if name != default_name(preset) else []
    return shlex.join(["envwright", "run", preset_source(preset), *given])
