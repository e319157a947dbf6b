"""Shared by all tests: runs, MLflow and Prefect go to a folder of the session."""

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.prefect_servers import prefect_server, prefect_tables

# Before anything imports torch: two threads that wait for each other beside other work are ten times slower
# than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Test files import a million objects and drop none; collecting them took a third of the time.
gc.disable()


@pytest.fixture(scope="session", autouse=True)
def _isolated_environment(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    values = {
        "ENVWRIGHT_RUNS": str(home / "runs"),
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_LOCAL_STORAGE_PATH": str(home / "prefect" / "storage"),
        "MPLCONFIGDIR": str(home / "mpl"),
    }
    os.environ.update(values)
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    os.environ.pop("PREFECT_API_URL", None)


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all workers of pytest."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if hasattr(request.config, "workerinput") else base


@pytest.fixture(scope="session")
def server(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API address of a Prefect server, one for each worker of pytest."""
    with prefect_server(tmp_path_factory.mktemp("server"), prefect_tables(shared)) as url:
        yield url


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs first, as a long file at the end would leave the other worker idle; before them the file
    that makes the finished runs, and beside it one that needs none of them."""
    rooms = {"test_loop.py": 0, "test_vllm.py": 1, "integration": 2, "policy": 3, "tasks": 4}
    items.sort(key=lambda item: min(rooms.get(part, len(rooms)) for part in item.path.parts))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # or libraries report what they find at the end as leaks


@pytest.fixture(autouse=True)
def _own_log() -> None:
    """A flow in this process makes Prefect take envwright's log over; the next test reads it all the same."""
    logger = logging.getLogger("envwright")
    logger.propagate, logger.disabled = True, False
    logging.disable(logging.NOTSET)
