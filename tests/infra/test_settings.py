"""What may be shown of the settings of a machine, and where they put its database."""

from pathlib import Path

import pytest

from infra.config.settings import Settings, without_password
from infra.mlflow_log import connect


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://me:secret@mlflow.example:5000/path", "http://mlflow.example:5000/path"),
        ("https://secret@mlflow.example", "https://mlflow.example"),
        (
            "postgresql+psycopg2://me:se/cr@et@host/mlflow?sslmode=require",
            "postgresql+psycopg2://host/mlflow?sslmode=require",
        ),
        (
            "postgresql://host/mlflow?user=me&password=secret&sslmode=require",
            "postgresql://host/mlflow?user=me&password=***&sslmode=require",
        ),
        ("https://store.example/runs?sig=secret#part", "https://store.example/runs?sig=***#part"),
        ("request to ftp://me:secret@store/x failed: 401", "request to ftp://store/x failed: 401"),
    ],
)
def test_credentials_are_not_shown(address: str, shown: str):
    assert without_password(address) == shown


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:////runs/mlflow.db",
        "http://127.0.0.1:5000",
        "s3://bucket/a@b",
        "file:///mnt/copies",
        "models:/envwright-tiny@best",
    ],
)
def test_an_address_without_credentials_is_shown_as_it_is(address: str):
    assert without_password(address) == address


def test_an_error_is_shown_without_the_address_it_failed_at():
    assert without_password(OSError("http://me:secret@host/api: refused")) == "http://host/api: refused"


def test_the_database_lies_in_a_runs_folder_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "50%20 off? ä#1"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    Settings().runs.mkdir()
    assert connect().search_experiments()
    assert (Settings().runs / "mlflow.db").stat().st_size > 0
