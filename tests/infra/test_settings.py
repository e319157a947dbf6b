"""What may be shown of the settings of a machine."""

import pytest

from infra.config.settings import without_password

WITHOUT_CREDENTIALS = (
    "sqlite:////runs/mlflow.db",
    "http://127.0.0.1:5000",
    "s3://bucket/a@b",
    "file:///mnt/copies",
    "models:/envwright-tiny@best",
)


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
        (OSError("http://me:secret@host/api: refused"), "http://host/api: refused"),
        *((address, address) for address in WITHOUT_CREDENTIALS),
    ],
)
def test_credentials_are_not_shown(address: object, shown: str):
    assert without_password(address) == shown
