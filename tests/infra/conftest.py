"""A small preset file."""

from pathlib import Path

import pytest
from small_preset import SMALL


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small preset."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path
