"""A preset of one's own, as text to edit: another one, with what each of its fields means."""

import ast
import inspect
import re
import textwrap
from itertools import pairwise

from pydantic import BaseModel

from envgen.yaml_files import dump_yaml, read_yaml
from infra.config.names import checked_name
from infra.config.preset import Preset, load_preset, preset_path, resolved_json

_WIDTH = 100


def own_preset(name: str, source: str) -> str:
    """The YAML of the preset `name`, made from another one, shipped or given by path.

    What the other one leaves out stands at the end, with its default, as comments. ConfigError if the name
    can be none, or the other preset cannot be read."""
    path, docs = preset_path(source), field_docs(Preset)
    defaults, given = resolved_json(load_preset(source)), read_yaml(path)
    lines = _comment(f"{name}: made from the preset {source}. Try it: envwright run ./{name}.yaml --dry-run")
    for line in path.read_text(encoding="utf-8").splitlines():
        key = re.match(r"(\w+):", line)
        lines += _comment(docs[key[1]]) if key and key[1] in docs else []
        lines.append(f"name: {checked_name(name, 'NAME')}" if key and key[1] == "name" else line)
    lines += ["", *_comment("Left out, so that these hold:")]
    for field, value in defaults.items():
        if field not in given and value is not None:
            flow = None if isinstance(value, dict) else False
            shown = dump_yaml({field: value}, flow, _WIDTH)
            lines += [*_comment(docs.get(field, "")), *(f"# {line}" for line in shown.splitlines())]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return field -> the string below it on one line, for those that have one."""
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: " ".join(ast.literal_eval(text.value).split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }
