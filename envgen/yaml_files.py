"""YAML as it is written by people: read safely; `yes`, `no`, `on` and `off` are texts, as in YAML 1.2."""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml.constructor import ConstructorError

from envgen.errors import ConfigError, DataError, describe_validation_error

Config = TypeVar("Config", bound=BaseModel)
# Broken text, a date such as 2020-13-45, endless nesting, or a tag that does not fit, as `!!bool maybe`.
YAML_ERRORS = (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError, TypeError)


class _Loader(yaml.SafeLoader):
    """Safe YAML in which `1e-4` is a number, as in YAML 1.2; PyYAML wants `1.0e-4`. A key that stands twice
    in a mapping is an error, as YAML says; PyYAML takes the last one without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping; ConstructorError names the line of a key that repeats."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise ConstructorError(
                    None, None, f"the key {key!r} stands twice; leave one of them out", key_node.start_mark
                )
            seen.update([key] if isinstance(key, Hashable) else [])
        return super().construct_mapping(node, deep)


# And in which `gate: off` is a word: in YAML 1.2 only true and false are booleans.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)


def load_yaml(text: str) -> Any:
    """The value of a YAML text; one of `YAML_ERRORS` if it has none."""
    return yaml.load(text, Loader=_Loader)


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML mapping, read safely; DataError names file and line."""
    try:
        raw = load_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, *YAML_ERRORS) as error:
        raise DataError(f"{path}: not readable as YAML: {error}") from None
    if not isinstance(raw, dict):
        raise DataError(f"{path}: holds {type(raw).__name__}, expected a mapping of fields")
    return raw


def read_env_config(path: Path, kind: type[Config]) -> Config:
    """An environment config from a YAML file, that of any family or of one; ConfigError names file and
    field."""
    raw = read_yaml(path)
    if "default_config" in raw:
        raise ConfigError(
            f"{path}: is a preset, not an environment config; give a file that holds its default_config alone"
        )
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(describe_validation_error(error, str(path))) from None
