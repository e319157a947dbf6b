"""What may be shown of the settings of a machine."""

import pytest

from infra.config.settings import without_password

PLAIN = ("sqlite:////runs/mlflow.db", "http://127.0.0.1:5000", "s3://bucket/a@b", "file:///mnt/copies")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://me:secret@mlflow.example:5000/path", "http://mlflow.example:5000/path"),
        ("https://secret@mlflow.example", "https://mlflow.example"),
        ("postgresql+psycopg2://me:se/cr@et@host/mlflow?a=b", "postgresql+psycopg2://host/mlflow?a=b"),
        ("postgresql://host/m?user=me&password=secret&a=b", "postgresql://host/m?user=me&password=***&a=b"),
        ("https://store.example/runs?sig=secret#part", "https://store.example/runs?sig=***#part"),
        ("request to ftp://me:secret@store/x failed: 401", "request to ftp://store/x failed: 401"),
        (OSError("http://me:secret@host/api: refused"), "http://host/api: refused"),
        *((address, address) for address in (*PLAIN, "models:/envwright-tiny@best")),
    ],
)
def test_credentials_are_not_shown(address: object, shown: str):
    assert without_password(address) == shown
