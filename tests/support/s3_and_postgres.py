"""Real stores on free ports of this machine for the time of a test, and servers of Prefect and MLflow on
them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.prefect_servers import free_port, served

DATABASES = Path(__file__).parents[2] / "infra" / "deploy" / "databases.sql"
KEYS = {
    "AWS_ACCESS_KEY_ID": "envwright",
    "AWS_SECRET_ACCESS_KEY": "not-secret",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@contextmanager
def s3(folder: Path) -> Iterator[dict[str, str]]:
    """An S3 server with a bucket `envwright`; yields the environment that points clients to it."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with served(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        f"{url}/moto-api/",
        folder / "s3.log",
    ):
        import boto3

        boto3.client(
            "s3", endpoint_url=url, aws_access_key_id="x", aws_secret_access_key="x", region_name="us-east-1"
        ).create_bucket(Bucket="envwright")
        yield {**KEYS, "AWS_ENDPOINT_URL": url}


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
    data = Path(
        subprocess.run(
            [*user, "mktemp", "-d", "/tmp/envwright-postgres.XXXXXX"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
    )

    def run(program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*user, str(binaries / program), *arguments],
            cwd=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout

    try:
        run("initdb", "-D", f"{data}/db", "-U", "envwright", "--auth=trust", "--no-sync")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={data} -c fsync=off"
        run("pg_ctl", "-D", f"{data}/db", "-l", f"{data}/log", "-w", "-o", options, "start")
        try:
            connection = f"host=127.0.0.1 port={port} user=envwright dbname=postgres"
            done = subprocess.run(
                [binaries / "psql", "-v", "ON_ERROR_STOP=1", "-f", script, connection],
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == 0, done.stderr
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
        prefect = [
            sys.executable,
            "-m",
            "prefect",
            "server",
            "start",
            *there,
            str(ports[0]),
            "--analytics-off",
        ]
        database = f"postgresql+asyncpg://{host}/prefect"
        own = {"PREFECT_SERVER_DATABASE_CONNECTION_URL": database, "PREFECT_HOME": str(folder / "server")}
        store = ["--backend-store-uri", f"postgresql+psycopg2://{host}/mlflow"]
        store += ["--artifacts-destination", "s3://envwright/mlflow", "--workers", "1"]
        mlflow = [sys.executable, "-m", "mlflow", "server", *there, str(ports[1]), *store]
        jobs = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (
            served(prefect, f"{prefect_url}/api/health", folder / "prefect.log", **own),
            served(mlflow, f"{mlflow_url}/health", folder / "mlflow.log", **keys, **jobs),
        ):
            yield {**keys, "PREFECT_API_URL": f"{prefect_url}/api", "MLFLOW_TRACKING_URI": mlflow_url}
