"""One MLflow database for the tests of a recorder, and a preset file."""

from pathlib import Path

import pytest
from recorded_curricula import Store
from small_preset import SMALL


@pytest.fixture(scope="session")
def store(tmp_path_factory) -> Store:
    found = Store(tmp_path_factory.mktemp("mlflow"))
    found.recorder()
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small preset."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path
