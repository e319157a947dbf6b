"""YAML 1.2 of people: safe values only, no key twice; `yes`, `no`, `on` and `off` are texts."""

import io
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from envgen.errors import DataError

# A date such as 2020-13-45, endless nesting, and `!!bool maybe` raise errors that are no YAMLError.
YAML_ERRORS = (YAMLError, ValueError, RecursionError, LookupError, AttributeError, TypeError)


def load_yaml(text: str) -> Any:
    """Return the value of a YAML text; raise one of `YAML_ERRORS` if it has none."""
    return YAML(typ="safe", pure=True).load(text)


def dump_yaml(value: Any) -> str:
    """Return a YAML text of plain values in their order."""
    yaml, text = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style, yaml.width = False, 100
    yaml.sort_base_mapping_type_on_output = False  # pyright: ignore[reportAttributeAccessIssue]
    yaml.dump(value, text)
    return text.getvalue()


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file; DataError names file and line."""
    try:
        raw = load_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, *YAML_ERRORS) as error:
        reason = str(error)
        if isinstance(error, MarkedYAMLError) and error.problem_mark:
            reason = f"line {error.problem_mark.line + 1}: {error.problem}"
        raise DataError(f"{path}: not readable as YAML: {reason}") from None
    if not isinstance(raw, dict):
        raise DataError(f"{path}: holds {type(raw).__name__}, expected a mapping of fields")
    return raw
