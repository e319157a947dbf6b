"""Mark our flow runs as crashed whose process is gone, so that they can be retried: `python -m
infra.serving.reaper`. Prefect's own automation also hits runs that were just suspended."""

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import psutil
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun
from prefect.events.filters import EventFilter
from prefect.states import Crashed

from infra.config.settings import TAG

_BEAT = "prefect.flow-run.heartbeat"
_GOING = {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}, "tags": {"all_": [TAG]}}
_SILENCE = {"RUNNING": timedelta(seconds=120), "PENDING": timedelta(seconds=900)}
"""Type of a state -> time without a heartbeat after which the run is dead; heartbeats come every 30 s."""


def living() -> dict[str, psutil.Process]:
    """Return id -> process of the workers' flow runs on this machine."""
    processes = psutil.process_iter(["create_time", "environ"])
    latest_first = sorted(processes, key=lambda process: -(process.info["create_time"] or 0))
    ids = [(process.info["environ"] or {}).get("PREFECT__FLOW_RUN_ID") for process in latest_first]
    return {run: process for run, process in zip(ids, latest_first, strict=True) if run}


def reap(client: SyncPrefectClient) -> Iterator[str]:
    """Mark every dead flow run as crashed; yield a sentence about each."""
    for run in client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(_GOING)):
        reason = _dead(client, run)
        if reason and client.read_flow_run(run.id).state_id == run.state_id:  # it may have moved on
            client.set_flow_run_state(run.id, Crashed(message=f"{reason}; Retry continues it"))
            yield f"{run.name} is marked as crashed: {reason}"


def _dead(client: SyncPrefectClient, run: FlowRun) -> str:
    """Return why a flow run is dead, or an empty text."""
    if run.deployment_id is None:  # a subflow lives in the process of its parent
        task = client.read_task_run(run.parent_task_run_id) if run.parent_task_run_id else None
        parent = client.read_flow_run(task.flow_run_id).state if task and task.flow_run_id else None
        return "its parent run has ended" if parent and parent.is_final() else ""
    assert run.state is not None
    now, started = datetime.now(UTC), run.state.timestamp
    what = {"any_resource": {"id": [f"prefect.flow-run.{run.id}"]}, "event": {"name": [_BEAT]}}
    when = {"occurred": {"since": started, "until": now + timedelta(hours=1)}}
    beats = client.read_events(EventFilter.model_validate(what | when), limit=1).events  # the latest
    silent = now - max([started, *(beat.occurred for beat in beats)])
    dead = silent > _SILENCE[run.state.type.value] and str(run.id) not in living()
    return f"no sign of life for {silent.total_seconds():.0f} s" if dead else ""


def watch() -> NoReturn:
    """Reap every 30 seconds; an error ends one look only, because servers restart."""
    log = logging.getLogger("envwright")
    while True:
        time.sleep(30)
        try:
            with get_client(sync_client=True) as client:
                for line in reap(client):
                    log.warning("%s", line)
        except Exception as error:
            log.warning("reaper: %s: %s", type(error).__name__, error)


if __name__ == "__main__":
    watch()
