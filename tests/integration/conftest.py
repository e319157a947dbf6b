"""Finished runs for all workers of pytest."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.finished_run import SIMULATED, TRAINED, FinishedRun, finished_run


@pytest.fixture(scope="session")
def make_run(request: pytest.FixtureRequest, shared: Path) -> Callable[[str], FinishedRun]:
    """The finished run of a preset, which nobody may change."""
    return lambda preset: finished_run(shared, preset, lambda: request.getfixturevalue("server"))


@pytest.fixture(scope="session")
def finished(make_run: Callable[[str], FinishedRun]) -> FinishedRun:
    """One of the simulated learner."""
    return make_run(SIMULATED)


@pytest.fixture(scope="session")
def trained(make_run: Callable[[str], FinishedRun]) -> FinishedRun:
    """One whose policy was trained by TRL and designed by itself: for slow tests."""
    return make_run(TRAINED)
