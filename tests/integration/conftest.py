"""One finished run of the micro preset for all workers of pytest."""

from pathlib import Path

import pytest
from support.finished_run import FinishedRun, finished_run


@pytest.fixture(scope="session")
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """A finished run that nobody may change."""
    base = tmp_path_factory.getbasetemp()
    shared: Path = base.parent if hasattr(request.config, "workerinput") else base
    return finished_run(shared, lambda: request.getfixturevalue("server"))
