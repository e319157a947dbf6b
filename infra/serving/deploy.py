"""Work pools and deployments on a Prefect server: made, or brought to what they should be."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import yaml
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL

from envgen.errors import ChildError, ConfigError
from infra.config.settings import Settings, without_password
from infra.serving.auth import CLIENT, REMEDY
from infra.serving.names import COMPARISONS, DEFAULT_QUEUE, LOCAL, POOLS

PROJECT = Path(__file__).resolve().parents[2]
"""Where the flows are: entrypoints are relative to it, and runs work in it."""
_REPLACED = "janitor/every-two-minutes"
"""A deployment of the first release; `envwright janitor` does its work."""
START_ONE = "start one with `envwright serve`, or name one: export PREFECT_API_URL=http://HOST:4200/api"


def deploy(
    file: Path,
    limit: int,
    say: Callable[[str], None],
    *,
    keep_pools: bool = False,
    worker_folders: bool = False,
) -> None:
    """Make or correct the work pools, and make or update every deployment of `file`.

    `limit` is how many runs the default queue of the local pool holds at a time. With `keep_pools`
    a pool that exists is left as it is, of whatever type. With `worker_folders` the runs of each worker are
    where its own environment says. ConfigError if no server answers.
    """
    if not file.is_file():
        raise ConfigError(
            f"{file}: no such file; deployments are made from a checkout of envwright, whose root holds"
            " prefect.yaml"
        )
    url = check_server()
    with get_client(sync_client=True) as client:
        for name, concurrency in POOLS.items():
            say(_ensure_pool(client, name, concurrency, keep_pools))
        _ensure_queue(client, LOCAL, DEFAULT_QUEUE, limit)
        _ensure_queue(client, LOCAL, COMPARISONS, None)
        with suppress(ObjectNotFound):
            client.delete_deployment(client.read_deployment_by_name(_REPLACED).id)
            say(f"deployment {_REPLACED}: removed; keep `envwright janitor` running instead")
    for name in _deploy_all(file, url, worker_folders):
        say(f"deployment {name}: made or updated")


def server_address() -> str:
    """The address of the Prefect server that is configured; ConfigError if there is none."""
    url = PREFECT_API_URL.value()
    if not url:
        raise ConfigError(f"PREFECT_API_URL is not set, so there is no server to talk to; {START_ONE}")
    return str(url)


def check_server() -> str:
    """The address of the Prefect server that is configured; ConfigError if there is none, it does not answer,
    or it refuses the login."""
    url = server_address()
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
        if problem is not None:
            reason = without_password(problem) or type(problem).__name__
            raise ConfigError(
                f"PREFECT_API_URL={without_password(url)}: no Prefect server answers there ({reason});"
                f" {START_ONE}"
            )
        try:
            client.api_version()
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.UNAUTHORIZED:
                raise
            given = "with the one given" if PREFECT_API_AUTH_STRING.value() else "without one"
            raise ConfigError(
                f"PREFECT_API_URL={without_password(url)}: the server asks for an auth string and refuses"
                f" {given}; {REMEDY}"
            ) from None
    return url


def _ensure_pool(client: SyncPrefectClient, name: str, concurrency: int | None, keep: bool) -> str:
    try:
        pool = client.read_work_pool(name)
    except ObjectNotFound:
        client.create_work_pool(WorkPoolCreate(name=name, type="process", concurrency_limit=concurrency))
        return f"work pool {name}: made"
    if keep:
        return f"work pool {name}: left as it is, of type {pool.type}"
    if pool.type != "process":
        remedy = f"use it with --keep-pools, or prefect work-pool delete {name}"
        raise ConfigError(
            f"work pool {name}: is of type {pool.type}, expected process, and Prefect cannot change that;"
            f" {remedy}"
        )
    if pool.concurrency_limit != concurrency:
        client.update_work_pool(name, WorkPoolUpdate(concurrency_limit=concurrency))
        return (
            f"work pool {name}: runs at a time {pool.concurrency_limit or 'without limit'} ->"
            f" {concurrency or 'without limit'}"
        )
    return f"work pool {name}: as it should be"


def _ensure_queue(client: SyncPrefectClient, pool: str, name: str, concurrency: int | None) -> None:
    # The synchronous client has no calls for the queues of a pool.
    queues = f"/work_pools/{pool}/queues"
    try:
        client.request("PATCH", f"{queues}/{name}", json={"concurrency_limit": concurrency})  # type: ignore[arg-type]
    except httpx.HTTPStatusError as error:
        if error.response.status_code != httpx.codes.NOT_FOUND:
            raise
        queue = {"name": name, "concurrency_limit": concurrency}
        client.request("POST", queues, json=queue)  # type: ignore[arg-type]


def _deploy_all(file: Path, url: str, worker_folders: bool) -> list[str]:
    """Prefect's own `deploy --all`, with every placeholder of the file filled in."""
    settings = Settings()
    values = {
        "COLUMNS": "300",
        "PWD": str(PROJECT),
        "PREFECT_API_URL": url,
        "ENVWRIGHT_RUNS": str(settings.runs.resolve()),
        "MLFLOW_TRACKING_URI": settings.tracking_uri,
    }
    login = {CLIENT: given} if (given := PREFECT_API_AUTH_STRING.value()) else {}
    # An address with credentials stays in the environment of the workers: the server shows job variables to
    # everybody.
    hidden = {name for name, value in values.items() if without_password(value) != value}
    if worker_folders:
        served = settings.tracking_uri.startswith(("http://", "https://"))
        hidden |= {"ENVWRIGHT_RUNS"} if served else {"ENVWRIGHT_RUNS", "MLFLOW_TRACKING_URI"}
    with _file_without(hidden, file) as given:
        command = [
            sys.executable,
            "-m",
            "prefect",
            "--no-prompt",
            "deploy",
            "--all",
            "--prefect-file",
            str(given),
        ]
        done = subprocess.run(
            command,
            cwd=PROJECT,
            env={**os.environ, **values, **login},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        # A refusal of the server repeats the whole deployment on one line.
        lines = [
            line[:500] for line in without_password(done.stdout + done.stderr).splitlines() if line.strip()
        ][-20:]
        raise ChildError(f"prefect deploy ended with exit code {done.returncode}:\n" + "\n".join(lines))
    return sorted(set(re.findall(r"Deployment '(\S+)' successfully created", done.stdout)))


@contextmanager
def _file_without(hidden: Collection[str], file: Path) -> Iterator[Path]:
    """A copy of a project file whose job variables lack some environment variables: an empty one would hide
    that of the worker."""
    if not hidden:
        yield file.resolve()
        return
    project = yaml.safe_load(file.read_text())
    for deployment in project["deployments"]:
        variables = (deployment.get("work_pool") or {}).get("job_variables") or {}
        variables["env"] = {
            name: value for name, value in (variables.get("env") or {}).items() if name not in hidden
        }
    with TemporaryDirectory() as folder:
        copy = Path(folder) / file.name
        copy.write_text(yaml.safe_dump(project, sort_keys=False))
        yield copy
