"""One Prefect server for each worker of pytest, and one finished run of the micro preset for all of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.finished_run import FinishedRun, finished_run
from support.prefect_servers import prefect_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API address of a Prefect server."""
    with prefect_server(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture(scope="session")
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """A finished run that nobody may change."""
    base = tmp_path_factory.getbasetemp()
    shared: Path = base.parent if hasattr(request.config, "workerinput") else base
    return finished_run(shared, lambda: request.getfixturevalue("server"))
