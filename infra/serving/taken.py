"""Runs that a worker had taken when it was stopped, over plain HTTP: `envwright serve` does without the
memory that Prefect's client takes."""

import json
import urllib.request
from collections.abc import Collection, Sequence
from typing import Any

from infra.serving.auth import authorization
from infra.serving.services import direct


def crash_taken(api: str, auth_string: str, pools: Sequence[str], processes: Collection[int]) -> None:
    """Mark runs of these processes, and those without a process yet, as crashed, so that they fill no place
    and can be retried.

    A run says so itself if the signal that ends it finds it listening; nothing is done if the server is gone.
    """
    going = {
        "flow_runs": {"state": {"type": {"any_": ["PENDING", "RUNNING"]}}},
        "work_pools": {"name": {"any_": list(pools)}},
    }
    ended = {"state": {"type": "CRASHED", "name": "Crashed", "message": "its worker was stopped"}}
    try:
        for run in _post(f"{api}/flow_runs/filter", auth_string, going):
            process = run["infrastructure_pid"]
            if process in map(str, processes) or (process is None and run["state"]["type"] == "PENDING"):
                _post(f"{api}/flow_runs/{run['id']}/set_state", auth_string, ended)
    except OSError:
        return


def _post(url: str, auth_string: str, body: dict) -> Any:
    headers = {"Content-Type": "application/json", **authorization(auth_string)}
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers)
    with direct.open(request, timeout=10) as answer:
        return json.load(answer)
