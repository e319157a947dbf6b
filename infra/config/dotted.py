"""Fields by dotted names, as `--set` gives them: `trl.learning_rate`."""

from typing import Any

from envgen.errors import ConfigError
from envgen.yaml_files import YAML_ERRORS, load_yaml


def parse_override(text: str) -> tuple[str, Any]:
    """`a.b=c` as (dotted key, value); the value is read as YAML."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise ConfigError(f"--set {text!r}: expected KEY=VALUE, for example --set trl.learning_rate=1e-4")
    try:
        return key, load_yaml(value)
    except YAML_ERRORS:
        return key, value


def leaves(fields: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Return dotted name -> value of nested fields; an empty mapping is a value."""
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict) and value:
            values |= leaves(value, f"{above}{name}.")
        else:
            values[f"{above}{name}"] = value
    return values


def set_field(raw: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a field of YAML that was read, by its dotted key; ConfigError if it lies in a value."""
    *parents, last = dotted.split(".")
    node: dict[Any, Any] = raw
    for part in parents:
        key = _key(node, part)
        if node.get(key) is None:
            node[key] = {}
        node = node[key]
        if not isinstance(node, dict):
            raise ConfigError(f"--set {dotted}: {part!r} is a value, not a group of fields")
    node[_key(node, last)] = value


def _key(node: dict[Any, Any], part: str) -> str | int:
    """The key that a part of a dotted name means: YAML reads digits as a number, JSON has them as text."""
    return int(part) if part.isdecimal() and part not in node else part
