"""Runs that a worker had taken when it was stopped, over plain HTTP: `envwright serve` does without the memory that Prefect's client takes."""

import json
import urllib.request
from collections.abc import Sequence
from typing import Any

from infra.serving.services import direct


def crash_pending(api: str, pools: Sequence[str]) -> None:
    """Mark what is pending in work pools without a worker as crashed, so that it fills no place and can be retried; nothing if the server is gone."""
    wanted = {"flow_runs": {"state": {"type": {"any_": ["PENDING"]}}}, "work_pools": {"name": {"any_": list(pools)}}}
    try:
        for run in _post(f"{api}/flow_runs/filter", wanted):
            _post(
                f"{api}/flow_runs/{run['id']}/set_state",
                {"state": {"type": "CRASHED", "name": "Crashed", "message": "its worker was stopped before it started"}},
            )
    except OSError:
        return


def _post(url: str, body: dict) -> Any:
    request = urllib.request.Request(url, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
    with direct.open(request, timeout=10) as answer:
        return json.load(answer)
