"""Real stores on free ports of this machine for the time of a test, and servers of Prefect and MLflow on
them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from envgen.processes import free_port
from support.prefect_servers import served

DATABASES = Path(__file__).parents[2] / "infra" / "deploy" / "databases.sql"
NAMES = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")


def client(keys: dict[str, str]) -> Any:
    """Return boto3's client for the server that this environment points to."""
    import boto3

    names = ("endpoint_url", "aws_access_key_id", "aws_secret_access_key", "region_name")
    return boto3.client("s3", **dict(zip(names, (keys[name] for name in NAMES), strict=True)))


@contextmanager
def s3(folder: Path) -> Iterator[dict[str, str]]:
    """An S3 server with a bucket `envwright`; yields the environment that points clients to it."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with served(command, f"{url}/moto-api/", folder / "s3.log"):
        keys = dict(zip(NAMES, (url, "envwright", "not-secret", "us-east-1"), strict=True))
        client(keys).create_bucket(Bucket="envwright")
        yield keys


def postgres_binaries() -> Path:
    """The folder of initdb and pg_ctl; skips the test without one, unless ENVWRIGHT_POSTGRES_REQUIRED is
    set."""
    found = shutil.which("pg_ctl")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    if not found and not installed:
        reason = "PostgreSQL's server is not installed (apt-get install postgresql)"
        (pytest.fail if os.environ.get("ENVWRIGHT_POSTGRES_REQUIRED") else pytest.skip)(reason)
    return Path(found or installed[-1]).resolve().parent


@contextmanager
def postgres(script: Path) -> Iterator[str]:
    """A new PostgreSQL server after an SQL script; yields `user@host:port`. Its folder is its user's own:
    that of a test may be closed to it."""
    binaries, port = postgres_binaries(), free_port()
    # PostgreSQL refuses to run as root.
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    made = subprocess.check_output([*user, "mktemp", "-d", "/tmp/envwright-postgres.XXXXXX"], text=True)
    data = Path(made.strip())

    def run(program: str, *arguments: str) -> None:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run([*user, str(binaries / program), *arguments], cwd=data, timeout=120, **pipes)
        assert done.returncode == 0, done.stdout

    try:
        run("initdb", "-D", f"{data}/db", "-U", "envwright", "--auth=trust", "--no-sync")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={data} -c fsync=off"
        run("pg_ctl", "-D", f"{data}/db", "-l", f"{data}/log", "-w", "-o", options, "start")
        try:
            connection = f"host=127.0.0.1 port={port} user=envwright dbname=postgres"
            subprocess.run([binaries / "psql", "-v", "ON_ERROR_STOP=1", "-f", script, connection], check=True)
            yield f"envwright@127.0.0.1:{port}"
        finally:
            run("pg_ctl", "-D", f"{data}/db", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(data, ignore_errors=True)


@contextmanager
def servers_on_stores(folder: Path) -> Iterator[dict[str, str]]:
    """Prefect and MLflow with PostgreSQL, and MLflow's artifacts in an S3 bucket; yields the environment that
    points clients to all of them."""
    ports = free_port(), free_port()
    prefect_url, mlflow_url = (f"http://127.0.0.1:{port}" for port in ports)
    there = ("--host", "127.0.0.1", "--port")
    with postgres(DATABASES) as host, s3(folder) as keys:
        module = [sys.executable, "-m"]
        prefect = [*module, "prefect", "server", "start", *there, str(ports[0]), "--analytics-off"]
        database = f"postgresql+asyncpg://{host}/prefect"
        own = {"PREFECT_SERVER_DATABASE_CONNECTION_URL": database, "PREFECT_HOME": str(folder / "server")}
        store = ["--backend-store-uri", f"postgresql+psycopg2://{host}/mlflow"]
        store += ["--artifacts-destination", "s3://envwright/mlflow", "--workers", "1"]
        mlflow = [*module, "mlflow", "server", *there, str(ports[1]), *store]
        jobs = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (
            served(prefect, f"{prefect_url}/api/health", folder / "prefect.log", **own),
            served(mlflow, f"{mlflow_url}/health", folder / "mlflow.log", **keys, **jobs),
        ):
            yield {**keys, "PREFECT_API_URL": f"{prefect_url}/api", "MLFLOW_TRACKING_URI": mlflow_url}
