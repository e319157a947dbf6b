"""Which fields a curriculum changed in its preset, as a command line says it."""

import json
from collections.abc import Iterator
from typing import Any

from envgen.errors import EnvwrightError
from infra.config.preset import Preset, load_preset, resolved_json, shipped_presets

OWN_OPTIONS = {"seed", "stages", "engineer.name", "engineer.variant", "approval"}
"""Fields that `envwright run` has options for, or that a resumed run may change."""


def overrides(preset: Preset) -> list[str]:
    """`a.b=value` of each field in which a preset differs from that of its `preset_source`, for `--set`.

    Empty if there is none, as of a file that is not in the working directory.
    """
    try:
        source = resolved_json(load_preset(preset_source(preset)))
    except EnvwrightError:
        return []
    return [f"{name}={_text(value)}" for name, value in _differing(source, resolved_json(preset))]


def preset_source(preset: Preset) -> str:
    """The name of a shipped preset; of another one the file, as `envwright init` names it."""
    return preset.name if preset.name in shipped_presets() else f"./{preset.name}.yaml"


def _differing(there: dict[str, Any], here: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in here.items():
        name, before = f"{prefix}{key}", there.get(key)
        if name in OWN_OPTIONS or value == before:
            continue
        if isinstance(value, dict) and isinstance(before, dict) and value:
            yield from _differing(before, value, f"{name}.")
        else:
            yield name, value


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)
