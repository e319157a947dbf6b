"""A preset file that is as small as one can be."""

from pathlib import Path
from typing import Any

import pytest

from envgen.errors import ConfigError, DataError
from infra.config.preset import load_preset

SMALL = """
name: small
prompt_style: compact
model: tiny
instances: 10
max_answer_tokens: 40
environment:
  options: {map_sizes: [3, 4]}
default_config:
  sizes:
    3: {data_ratio: 0.5, hole_ratio: 0.2, wait_ratio: 0.5}
    4: {data_ratio: 0.5, hole_ratio: 0.2, wait_ratio: 0.5}
"""


def changed(file: Path, old: str, new: str) -> str:
    """The path of the small preset with one text replaced by another."""
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    return str(file)


def complaint(name: str, overrides: dict[str, Any] | None = None) -> str:
    with pytest.raises((ConfigError, DataError)) as refused:
        load_preset(name, overrides)
    return str(refused.value)
