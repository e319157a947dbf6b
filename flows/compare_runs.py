"""The curricula of a comparison as flow runs: of the deployment `curriculum/<preset>`, which the workers of
its work pool take, or in processes of this machine."""

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import Popen
from typing import Any
from uuid import UUID

import httpx
from prefect import Task
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun, WorkPoolStatus
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.runtime import flow_run
from prefect.settings import PREFECT_API_URL
from prefect.states import Crashed, Pending, Scheduled, State
from prefect.utilities.urls import url_for

from envgen.errors import ChildError, RunDirectoryError
from flows.compare_processes import Processes, last_words, output_of
from flows.curriculum import curriculum
from flows.parameters import Membership
from infra.analysis.gather import finished
from infra.analysis.spec import Child
from infra.runs.progress import new_lines
from infra.runs.run import Run
from infra.serving.reaper import TAG
from tasks.remote import fetch_run
from tasks.run import log

LOOK, LOOK_AT_PROCESS, LOOK_AT_POOL = 3.0, 1.0, 15.0
"""Seconds between two looks at a run on a worker, at one here, and at a work pool that takes none."""
CRASHES = 3
"""Crashes, as of a worker that died, after which a curriculum is still scheduled again."""
GRACE = timedelta(seconds=20)
"""After which that starts, so that the process that crashed has ended."""
OUTAGE = 600.0
"""Seconds that the server may be silent."""


def pool_for(preset: str) -> str | None:
    """Return the work pool of the deployment of a preset on the Prefect server that is configured; None if
    there is none, so that curricula run here."""
    if not PREFECT_API_URL.value():
        return None
    with get_client(sync_client=True) as client:
        try:
            return client.read_deployment_by_name(f"curriculum/{preset}").work_pool_name or ""
        except ObjectNotFound:
            log.warning(
                "the Prefect server has no deployment curriculum/%s: the curricula run here, as processes; to"
                " give them to workers, name it in prefect.yaml and run prefect deploy --all",
                preset,
            )
            return None


class FlowRuns:
    """Runs curricula of a comparison, linked below this flow run, and awaits their ends."""

    def __init__(
        self,
        directory: Path,
        where: Processes | str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Runs in processes of this machine, or on the work pool of their deployment; there `environment` is
        added to the environment of the workers."""
        self.directory, self.where = directory, where
        self._variables = {"env": dict(environment)} if environment else None
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._looked, self._told = float("-inf"), ""

    def run(self, child: Child) -> None:
        """Have one curriculum run to its end; ChildError if it fails. One that is under way on a worker is
        awaited instead."""
        directory, tag = self.directory / child.name, f"{self.directory.name}/{child.name}"
        with get_client(sync_client=True) as client:
            tagged = FlowRunFilter(tags=FlowRunFilterTags(all_=[tag]))
            earlier = client.read_flow_runs(flow_run_filter=tagged)
            going = [run for run in earlier if run.state and not run.state.is_final()]
            for run in going:
                log.info("%s: is under way, waiting for it: %s", child.title, address(run.id))
                self._wait(client, run.id, child)
                fetch_run(directory)
            if not (going and finished(directory, child.preset)):
                self._run(client, child, tag, f"{tag} {len(earlier)}")
        fetch_run(directory)
        if not finished(directory, child.preset):
            raise RunDirectoryError(
                f"{directory}: its run ended without an error, but its results are not there, not complete or"
                " not readable; this machine and the workers need the same ENVWRIGHT_RUNS, or the same"
                " ENVWRIGHT_REMOTE"
            )

    def stop(self) -> None:
        """Wait for no run any more; what the workers do goes on, processes of this machine end."""
        self._stopped.set()

    def _run(self, client: SyncPrefectClient, child: Child, tag: str, key: str) -> None:
        """Start a curriculum and await its end; comparisons that start it with one key get the same run."""
        # As text: PostgreSQL sorts the keys of an object, and their order decides the validation set.
        membership = Membership(folder=self.directory.name, root=child.root).model_dump()
        parameters = {"preset": child.preset.model_dump_json(), "name": child.name, "comparison": membership}
        if isinstance(self.where, Processes):
            made = _linked(client, child, tag, parameters)
            with self.where.started(child.name, child.title, str(made.id)) as process:
                return self._wait(client, made.id, child, process)
        deployment = f"curriculum/{child.preset.name}"
        with self._lock:  # Prefect numbers the children of a flow run without one
            made = run_deployment(
                deployment,
                flow_run_name=tag,
                parameters=parameters,
                timeout=0,
                tags=[tag],
                idempotency_key=key,
                job_variables=self._variables,
            )
        assert isinstance(made, FlowRun)
        log.info("%s: a run of %s, %s", child.title, deployment, address(made.id))
        return self._wait(client, made.id, child)

    def _wait(self, client: SyncPrefectClient, run: UUID, child: Child, process: Popen | None = None) -> None:
        """Wait for the end of a flow run, and tell what it says meanwhile; ChildError if it is no good one. A
        run on a worker that crashed is scheduled again if nobody else does that."""
        files = Run(directory=self.directory / child.name)
        _, read = new_lines(files, 0)
        answered, last_state = time.monotonic(), ""
        while not self._stopped.wait(LOOK_AT_PROCESS if process else LOOK):
            ended = process is not None and process.poll() is not None  # before its state is read
            try:
                state = self._look(client, run, child, process if ended else None)
            except httpx.HTTPError:
                if time.monotonic() - answered > OUTAGE:
                    raise
                continue
            answered = time.monotonic()
            if state.name and state.name != last_state and not state.is_final():
                last_state = state.name
                log.info("%s: %s", child.title, last_state.lower())
            lines, read = new_lines(files, read)
            for line in lines:
                log.info("%s: %s", child.title, line.partition("  ")[2])  # without its time
            if state.is_completed():
                return
            if state.is_final():
                output = f"; its output is in {output_of(self.directory, child.name)}" if process else ""
                raise ChildError(f"{address(run)} is {state.name}: {state.message}{output}")
        if not process:
            how = "the same command waits for it again, prefect flow-run cancel ends it"
            log.warning("%s: %s goes on; %s", child.title, address(run), how)
        raise ChildError(f"{address(run)} is not waited for any more")

    def _look(self, client: SyncPrefectClient, run: UUID, child: Child, ended: Popen | None) -> State:
        """The state of a flow run, corrected if its process `ended` without a word."""
        state = client.read_flow_run(run).state or Pending()
        if isinstance(self.where, Processes):
            if ended and not state.is_final():
                state = Crashed(
                    message=last_words(output_of(self.directory, child.name), ended.returncode)[-2000:]
                )
                client.set_flow_run_state(run, state, force=True)
        elif state.is_scheduled():
            self._look_for_workers(client, self.where)
        elif state.is_crashed() and _crashes(client, run) <= CRASHES:
            log.warning("%s: %s; scheduled again", child.title, state.message)
            later = datetime.now(UTC) + GRACE
            state = Scheduled(scheduled_time=later, message="resumed by its comparison")
            client.set_flow_run_state(run, state, force=True)
        return state

    def _look_for_workers(self, client: SyncPrefectClient, pool: str) -> None:
        """Say once if nobody takes runs from a work pool, and what to do."""
        now = time.monotonic()
        with self._lock:
            if not pool or now - self._looked < LOOK_AT_POOL:
                return
            self._looked = now
            status, problem = client.read_work_pool(pool).status, ""
            if status == WorkPoolStatus.PAUSED:
                problem = f"is paused, so that curricula wait: prefect work-pool resume {pool}"
            elif status == WorkPoolStatus.NOT_READY:
                problem = (
                    "has no worker online, so that curricula wait for one; start it where they are to run:"
                    f" prefect worker start --pool {pool}"
                )
            if problem and problem != self._told:
                log.warning("work pool %s %s", pool, problem)
            self._told = problem


def _linked(client: SyncPrefectClient, child: Child, name: str, parameters: dict[str, Any]) -> FlowRun:
    """A new flow run of a curriculum below this flow run, for a process of this machine."""
    task_run = client.create_task_run(
        Task(name=child.title, fn=curriculum.fn),
        flow_run_id=UUID(flow_run.id),
        dynamic_key=child.name,
        name=child.title,
        state=Pending(),
    )
    return client.create_flow_run(
        curriculum,
        name=name,
        parameters=parameters,
        parent_task_run_id=task_run.id,
        state=Pending(),
        tags=[TAG],
    )


def _crashes(client: SyncPrefectClient, run: UUID) -> int:
    return sum(state.is_crashed() for state in client.read_flow_run_states(run))


def address(flow_run: UUID) -> str:
    """Where Prefect's UI shows a flow run; its id if no UI is known."""
    return url_for("flow-run", flow_run) or f"flow run {flow_run}"
