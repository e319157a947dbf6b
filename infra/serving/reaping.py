"""Runs of ours that a Prefect server still holds for running although nobody works on them; other people's
runs are left alone.

The current state of every run is read. Prefect's own recipe, an automation that waits for the next heartbeat,
also marks runs that have just been suspended as crashed, because events are handled in the order they arrive
in."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
)
from prefect.client.schemas.objects import TERMINAL_STATES, FlowRun, StateType
from prefect.events.filters import (
    EventAnyResourceFilter,
    EventFilter,
    EventNameFilter,
    EventOccurredFilter,
    EventOrder,
)
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed, Scheduled

from infra.serving.names import TAG

SIGNS_OF_LIFE = ["prefect.flow-run.heartbeat", "prefect.flow-run.Running"]
_PAGE = 200
"""The most that the server hands out at once."""
_OURS = FlowRunFilterTags(all_=[TAG])
_Run = TypeVar("_Run")


def reap(
    client: SyncPrefectClient, *, max_silence: float, max_start: float, resume: int, now: datetime
) -> list[str]:
    """Mark dead runs of our deployments as crashed, and what still runs below a run that has ended; what was
    done, in sentences.

    A RUNNING run is dead after `max_silence` seconds without a heartbeat. A PENDING one is dead after
    `max_start` seconds: the worker that took it is gone, no other takes it, and it fills a place of its
    queue. A run is scheduled again as long as its history holds at most `resume` crashes."""
    done = []
    for run in _in_state(client, StateType.RUNNING, deployed=True):
        silent = (now - _last_sign(client, run, now)).total_seconds()
        if silent > max_silence:
            done += _crash(client, run, f"no sign of life for {silent:.0f} s", resume)
    for run in _in_state(client, StateType.PENDING, deployed=True):
        waited = (now - _since(run)).total_seconds()
        if waited > max_start:
            done += _crash(client, run, f"taken by a worker {waited:.0f} s ago and never started", resume)
    return [*done, *_end_subflows(client, max_silence, now), *_end_tasks(client)]


def _in_state(client: SyncPrefectClient, state: StateType, *, deployed: bool) -> list[FlowRun]:
    wanted = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[state])),
        deployment_id=FlowRunFilterDeploymentId(is_null_=not deployed),
        tags=_OURS,
    )
    return _all(client.read_flow_runs, flow_run_filter=wanted)


def _all(read: Callable[..., list[_Run]], **filters: Any) -> list[_Run]:
    """What all pages hold. It is read before anything is changed: a change moves the pages."""
    found: list[_Run] = []
    while page := read(**filters, limit=_PAGE, offset=len(found)):
        found += page
        if len(page) < _PAGE:
            break
    return found


def _since(run: FlowRun) -> datetime:
    """When a run entered its state."""
    assert run.state is not None
    return run.state.timestamp


def _last_sign(client: SyncPrefectClient, run: FlowRun, now: datetime) -> datetime:
    wanted = EventFilter(
        any_resource=EventAnyResourceFilter(id=[f"prefect.flow-run.{run.id}"]),
        event=EventNameFilter(name=SIGNS_OF_LIFE),
        occurred=EventOccurredFilter(since=_since(run), until=now + timedelta(hours=1)),  # type: ignore[arg-type]
        order=EventOrder.DESC,
    )
    return max([_since(run), *(event.occurred for event in client.read_events(wanted, limit=1).events)])


def _crash(client: SyncPrefectClient, run: FlowRun, reason: str, resume: int) -> Iterator[str]:
    try:
        current = client.read_flow_run(run.id).state
        if current is None or run.state is None or current.id != run.state.id:
            return  # it moved on in the meantime
        client.set_flow_run_state(run.id, Crashed(message=f"{reason} (janitor)"))
        again = schedule_again(client, run.id, resume, "janitor")
    except ObjectNotFound:
        return  # somebody deleted it
    yield f"{run.name}: {reason}: crashed" + (f", scheduled again ({again})" if again else "")


def schedule_again(client: SyncPrefectClient, run: UUID, limit: int, by: str) -> str:
    """Schedule a crashed run again if its history holds at most `limit` crashes: `2 of 3`; empty if not."""
    # The run's own counter also counts resumes after a suspension.
    crashes = sum(state.type == StateType.CRASHED for state in client.read_flow_run_states(run))
    if crashes > limit:
        return ""
    message = f"resumed by the {by}, {crashes} of {limit} times"
    client.set_flow_run_state(run, Scheduled(message=message), force=True)
    return f"{crashes} of {limit}"


def _end_subflows(client: SyncPrefectClient, max_silence: float, now: datetime) -> Iterator[str]:
    """Subflow runs live in the process of their parent and end with it."""
    while ended := [
        run
        for run in _in_state(client, StateType.RUNNING, deployed=False)
        if _orphaned(client, run, max_silence, now)
    ]:
        for run in ended:
            with suppress(ObjectNotFound):
                client.set_flow_run_state(
                    run.id, Crashed(message="the run above it has ended (janitor)"), force=True
                )
            yield f"{run.name}: the run above it has ended: crashed"


def _orphaned(client: SyncPrefectClient, run: FlowRun, max_silence: float, now: datetime) -> bool:
    if (
        run.parent_task_run_id is None
    ):  # the server drops the link with the parent; a root run that somebody gave our tag gives signs of life
        return (now - _last_sign(client, run, now)).total_seconds() > max_silence
    try:
        parent = client.read_task_run(run.parent_task_run_id).flow_run_id
        state = client.read_flow_run(parent).state if parent else None
    except ObjectNotFound:
        return True
    return state is not None and state.is_final()


def _end_tasks(client: SyncPrefectClient) -> list[str]:
    """Task runs of flow runs that have ended; one sentence for all, there can be many."""
    ended = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=sorted(TERMINAL_STATES))), tags=_OURS
    )
    going = TaskRunFilter(
        state=TaskRunFilterState(
            type=TaskRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING]), name=None
        )
    )
    tasks = _all(client.read_task_runs, flow_run_filter=ended, task_run_filter=going)
    for task in tasks:
        try:
            client.set_task_run_state(
                task.id, Crashed(message="its flow run has ended (janitor)"), force=True
            )
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:  # somebody deleted it
                raise
    return [f"{len(tasks)} task runs of flow runs that have ended: crashed"] if tasks else []
