"""The command that makes a comparison, and goes on with one that was cut off."""

import shlex

from infra.analysis.spec import ComparisonSpec
from infra.config.overrides import overrides, preset_source


def compare_command(spec: ComparisonSpec) -> str:
    """`envwright compare` of these arms and seeds; a preset that is not shipped is named as `envwright init`
    writes it."""
    preset = spec.preset
    arms = [f"{arm.engineer}:{arm.variant}" if arm.reads else arm.engineer for arm in spec.arms]
    given = ["--engineers", ",".join(arms), "--seeds", ",".join(map(str, spec.seeds))]
    given += ["--stages", str(preset.stages), "--stage-0", spec.stage_0]
    given += [part for setting in overrides(preset) for part in ("--set", setting)]
    given += ["--registration", spec.registration["file"]] if "file" in spec.registration else []
    given += ["--name", spec.name] if spec.name != f"compare-{preset.name}" else []
    return shlex.join(["envwright", "compare", preset_source(preset), *given])
