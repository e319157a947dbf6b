"""Finished runs for all workers of pytest, which nobody may change."""

from pathlib import Path

import pytest
from support.finished_run import SIMULATED, TRAINED, FinishedRun, finished_run


@pytest.fixture(scope="session")
def finished(request: pytest.FixtureRequest, shared: Path) -> FinishedRun:
    """One of the simulated learner."""
    return finished_run(shared, SIMULATED, lambda: request.getfixturevalue("server"))


@pytest.fixture(scope="session")
def trained(request: pytest.FixtureRequest, shared: Path) -> FinishedRun:
    """One whose policy was trained by TRL and designed by itself: for slow tests."""
    return finished_run(shared, TRAINED, lambda: request.getfixturevalue("server"))
