"""Runs that a worker had taken when it ended, over plain HTTP: `envwright serve` does without the memory that
Prefect's client takes."""

import json
import urllib.request
from collections.abc import Callable, Collection
from typing import Any

import psutil

from infra.serving.auth import authorization
from infra.serving.names import worker_name
from infra.serving.services import direct


def crash_taken(api: str, auth_string: str, pools: Collection[str], processes: Collection[int]) -> None:
    """Mark runs of these processes, and those without a process yet, as crashed, so that they fill no place
    and can be retried.

    A run says so itself if the signal that ends it finds it listening; nothing is done if the server is gone.
    """
    _crash(api, auth_string, pools, ["PENDING", "RUNNING"], lambda process: process in processes)


def crash_unstarted(api: str, auth_string: str, pools: Collection[str]) -> None:
    """Mark runs as crashed that were taken and have no living process on this machine: those of workers that
    were killed.

    Of runs that had begun, and of all of a pool on which another worker than ours is at work, that one may be
    in charge: the janitor sees to them."""
    ours = [pool for pool in pools if not _shared(api, auth_string, pool)]
    _crash(api, auth_string, ours, ["PENDING"], lambda process: not psutil.pid_exists(process))


def _shared(api: str, auth_string: str, pool: str) -> bool:
    """Whether another worker than that of this machine's `envwright serve` is at work on a pool, or nobody
    can tell."""
    try:
        workers = _post(f"{api}/work_pools/{pool}/workers/filter", auth_string, {})
    except OSError:
        return True
    return any(one["status"] == "ONLINE" and one["name"] != worker_name(pool) for one in workers)


def _crash(
    api: str, auth_string: str, pools: Collection[str], states: list[str], gone: Callable[[int], bool]
) -> None:
    going = {
        "flow_runs": {"state": {"type": {"any_": states}}},
        "work_pools": {"name": {"any_": list(pools)}},
    }
    ended = {"state": {"type": "CRASHED", "name": "Crashed", "message": "its worker was stopped"}}
    try:
        for run in _post(f"{api}/flow_runs/filter", auth_string, going):
            process = run["infrastructure_pid"] or ""
            if gone(int(process)) if process.isdecimal() else run["state"]["type"] == "PENDING":
                _post(f"{api}/flow_runs/{run['id']}/set_state", auth_string, ended)
    except OSError:
        return


def _post(url: str, auth_string: str, body: dict) -> Any:
    headers = {"Content-Type": "application/json", **authorization(auth_string)}
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers)
    with direct.open(request, timeout=10) as answer:
        return json.load(answer)
