"""Presets as people write them: the options of a command line, and a commented YAML file."""

import json
import re
import textwrap

from envgen.errors import EnvwrightError
from envgen.yaml_files import dump_yaml, read_yaml
from infra.config.dotted import leaves
from infra.config.preset import Preset, load_preset, preset_path, shipped_presets
from infra.config.settings import checked_name

OWN_OPTIONS = {"seed", "stages", "engineer.name", "engineer.variant", "approval"}
"""Fields that `envwright run` has options for, or that a resumed run may change."""
_WIDTH = 100


def overrides(preset: Preset) -> list[str]:
    """Return `a.b=value`, for `--set`, of each field in which a preset differs from its `preset_source`.

    Empty if that one cannot be read, as a file that is not in the working directory.
    """
    try:
        source = leaves(load_preset(preset_source(preset)).model_dump(mode="json"))
    except EnvwrightError:
        return []
    fields = leaves(preset.model_dump(mode="json")).items()
    return [
        f"{name}={value if isinstance(value, str) and value else json.dumps(value)}"
        for name, value in fields
        if name not in OWN_OPTIONS and value != source.get(name)
    ]


def preset_source(preset: Preset) -> str:
    """Return the name of a shipped preset; the file of another one, as `envwright new preset` names it."""
    return preset.name if preset.name in shipped_presets() else f"./{preset.name}.yaml"


def own_preset(name: str, source: str) -> str:
    """The YAML of the preset `name`, made from another one, shipped or given by path.

    What the other one leaves out stands at the end, with its default, as comments. ConfigError if the name
    can be none, or the other preset cannot be read."""
    path = preset_path(source)
    docs = {name: field.description or "" for name, field in Preset.model_fields.items()}
    defaults, fields = load_preset(source).model_dump(mode="json"), read_yaml(path)
    lines = _comment(f"{name}: made from the preset {source}. Try it: envwright run ./{name}.yaml --dry-run")
    for line in path.read_text(encoding="utf-8").splitlines():
        key = re.match(r"(\w+):", line)
        lines += _comment(docs[key[1]]) if key and key[1] in docs else []
        lines.append(f"name: {checked_name(name, 'NAME')}" if key and key[1] == "name" else line)
    lines += ["", *_comment("Left out, so that these hold:")]
    for field, value in defaults.items():
        if field not in fields and value is not None:
            flow = None if isinstance(value, dict) else False
            text = dump_yaml({field: value}, flow, _WIDTH)
            lines += [*_comment(docs.get(field, "")), *(f"# {line}" for line in text.splitlines())]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]
