"""Where the tests of records have MLflow keep them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient
from support.prefect_servers import free_port, served


@pytest.fixture(scope="session")
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("store")
    database = f"sqlite:///{folder}/mlflow.db"
    if getattr(request, "param", "database") == "database":
        yield database
        return
    port = str(free_port())
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", "127.0.0.1"]
    command += ["--port", port, "--backend-store-uri", database]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    uri, settings = f"http://127.0.0.1:{port}", {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with served(command, f"{uri}/health", folder / "server.log", **settings):
        yield uri


@pytest.fixture
def tracked(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    return MlflowClient(store)
