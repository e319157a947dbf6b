"""`python tests/documentation/pages.py` writes docs/commands.md, docs/presets.md and the deployments of
prefect.yaml from the code."""

import json
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typer.main import get_command

from envgen.yaml_files import read_yaml
from flows.cli import app
from infra.config.preset import PRESETS, Preset

ROOT = Path(__file__).parents[2]
HEAD = "<!-- Made by tests/documentation/pages.py; change the code, not this file. -->"
SECTIONS = {
    "environment": "The environment and its options: [Environments](environments.md).",
    "validation": "The fixed set of instances that every checkpoint is judged on.",
    "test": "Other instances that every checkpoint answers and that training, engineer and gate never see, in"
    " the strata and the grid of the validation set. At most one of `instances` and `file`; `test: {}` takes"
    " the defaults.",
    "evaluation": "How the instances of both sets are answered: [Statistics](statistics.md).",
    "engineer": "Who designs: [Engineers](engineer.md).",
    "engine": "What generates the answers of evaluation and engineer: [Engines](engines.md).",
    "rewards": "Weights of the terms of a training reward.",
    "training": "How training is started.",
}


def commands_page() -> str:
    """docs/commands.md: every command with its options, and the first sentence that it says of itself."""
    head = f"""{HEAD}

# Commands

`envwright COMMAND --help` says what each option means. Top-level [fields of a preset](presets.md)
are options of `run`; all others are `--set a.b=c`. `--json` prints a table as JSON.

| command | does | options |
|---|---|---|
"""
    return head + "\n".join(_commands(get_command(app), "envwright")) + "\n"


def _commands(command: Any, name: str) -> list[str]:
    """Rows of a command and of the commands below it."""
    inner = getattr(command, "commands", {})
    rows = []
    if name != "envwright" and (not inner or command.invoke_without_command):
        options = [each for each in command.params if each.param_type_name == "option"]
        arguments = [each.metavar or each.name for each in command.params if each not in options]
        meaning = " ".join((command.help or "").split("\n\n")[0].split()).replace("|", "\\|")
        names = " ".join(f"`{each.opts[0]}`" for each in options)
        rows.append(f"| `{' '.join([name, *map(str.upper, arguments)])}` | {meaning} | {names} |")
    return rows + [row for key, each in inner.items() for row in _commands(each, f"{name} {key}")]


def presets_page() -> str:
    """docs/presets.md: every field of a preset, with type, default and meaning."""
    head = f"""{HEAD}

# Presets

A preset is everything that decides a curriculum, in one YAML file. `envwright run NAME` takes a
shipped one, `envwright run ./mine.yaml` yours, and `--set a.b=c` changes any field for one run.
`--dry-run` prints the resolved preset with every default, `envwright presets` the shipped ones.

"""
    lines = _table(Preset)
    for name, text in SECTIONS.items():
        kind: Any = Preset.model_fields[name].annotation
        lines += ["", f"## `{name}`", "", text, "", *_table((get_args(kind) or [kind])[0])]
    lines += ["", "## `trl`", ""]
    lines += [
        "Any option of [TRL's `GRPOConfig`](https://huggingface.co/docs/trl/grpo_trainer) by its own name;",
        "an unknown one is answered with the nearest.",
    ]
    return head + "\n".join(lines) + "\n"


def _table(model: type[BaseModel]) -> list[str]:
    rows = ["| field | type | default | is |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        meaning = " ".join((field.description or "").split()).replace("|", "\\|").replace("<", "&lt;")
        bounds = _bounds(field)
        kind = _kind(field.annotation).replace("|", "\\|")
        rows.append(f"| `{name}` | {f'{kind} {bounds}'.strip()} | {_default(field)} | {meaning} |")
    return rows


def _kind(annotation: Any) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in args)
    if origin in (Union, types.UnionType):
        return " or ".join(_kind(arg) for arg in args if arg is not type(None))
    if origin in (tuple, list):
        return f"list of {_kind(args[0])}"
    if origin is dict:
        return "mapping"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    words = {"str": "text", "int": "integer", "float": "number", "bool": "boolean"}
    return words.get(getattr(annotation, "__name__", ""), "text")


def _bounds(field: FieldInfo) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    limits = [(sign, getattr(limit, key, None)) for limit in field.metadata for key, sign in signs.items()]
    numbers = [(sign, f"{n:,}" if isinstance(n, int) else f"{n:g}") for sign, n in limits if n is not None]
    return " ".join(sign + number for sign, number in numbers).replace("<", "&lt;")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is None or value is PydanticUndefined or isinstance(value, BaseModel) or value in ("", (), {}):
        return "–"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def deployments() -> str:
    """prefect.yaml, with a deployment of the curriculum for each shipped preset."""
    begin, end = "deployments:\n", "  # Comparisons only wait"
    head, rest = (ROOT / "prefect.yaml").read_text().split(begin)
    lines = [
        f"  - {{<<: *curriculum, name: {path.stem}, parameters: {{preset: {path.stem}}},"
        f" description: {json.dumps(read_yaml(path)['description'])}}}\n"
        for path in sorted(PRESETS.glob("*.yaml"))
    ]
    return head + begin + "".join(lines) + end + rest.split(end)[1]


PAGES = {"docs/commands.md": commands_page, "docs/presets.md": presets_page, "prefect.yaml": deployments}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (ROOT / page).write_text(make())
