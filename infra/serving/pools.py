"""The work pool and the deployments on a Prefect server."""

import logging
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from httpx import HTTPStatusError
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import WorkPoolStatus
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.settings import PREFECT_API_URL

from envgen.errors import ChildError

POOL = "local"
"""Work pool of the worker of `envwright serve`."""
_PROJECT = Path(__file__).resolve().parents[2]
_log = logging.getLogger("envwright")


def deploy(limit: int) -> None:
    """Make or update the work pool and the deployments of `prefect.yaml`."""
    with get_client(sync_client=True) as client:
        with suppress(ObjectAlreadyExists):
            client.create_work_pool(WorkPoolCreate(name=POOL, type="process"))
        queues = f"/work_pools/{POOL}/queues"
        for queue, places in (("default", limit), ("comparisons", None)):
            with suppress(HTTPStatusError):  # it exists
                client.request("POST", queues, json={"name": queue})  # type: ignore[arg-type]
            client.request("PATCH", f"{queues}/{queue}", json={"concurrency_limit": places})  # type: ignore[arg-type]
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    options = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
    # Runs work in this folder, so that the relative path of a preset means the same in the UI.
    done = subprocess.run(command, cwd=_PROJECT, env={**os.environ, "PWD": os.getcwd()}, **options)
    if done.returncode:
        raise ChildError(f"prefect deploy failed:\n{(done.stdout + done.stderr)[-2000:]}")


def pool_for(preset: str) -> str | None:
    """Return the work pool of a preset's deployment, with a warning if it starts no runs; None without a
    configured Prefect server, or without a deployment there."""
    if not PREFECT_API_URL.value():
        return None
    with get_client(sync_client=True) as client:
        try:
            pool = client.read_deployment_by_name(f"curriculum/{preset}").work_pool_name or ""
        except ObjectNotFound:
            remedy = "to give them to workers, name it in prefect.yaml and run prefect deploy --all"
            problem = f"has no deployment curriculum/{preset}: the curricula run here, as processes"
            _log.warning("the Prefect server %s; %s", problem, remedy)
            return None
        status = client.read_work_pool(pool).status if pool else None
    if status in {WorkPoolStatus.PAUSED, WorkPoolStatus.NOT_READY}:
        remedy = f"prefect work-pool resume {pool}, or prefect worker start --pool {pool}"
        _log.warning("work pool %s is paused or has no worker online: curricula wait; %s", pool, remedy)
    return pool
