"""The curricula of a comparison as runs of the deployments `curriculum/<preset>`, which the workers of their
work pools take."""

import threading
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import TERMINAL_STATES, FlowRun, WorkPoolStatus
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL
from prefect.states import Scheduled, State
from prefect.utilities.urls import url_for
from pydantic import Field

from envgen.errors import ChildError, RunDirectoryError
from envgen.frozen import Frozen
from infra.analysis.gather import finished
from infra.analysis.run_status import log_lines
from infra.analysis.spec import ComparisonSpec
from infra.config.preset import Preset
from infra.config.settings import Settings, checked_name
from infra.runs.run import Run
from tasks.remote import fetch_run
from tasks.run import Throttle, log

LOOK, LOOK_AT_POOL = 3.0, 15.0
"""Seconds between two looks at a run, and at a work pool that takes none."""
SAY = 30.0
"""Seconds between two lines about one run."""
CRASHES = 3
"""Crashes, as of a worker that died, after which a curriculum is still scheduled again."""
GRACE = 20.0
"""Seconds in which somebody else may do that: the janitor, or the batch script of a preempted job."""
OUTAGE = 600.0
"""Seconds that the server may be silent."""


class Membership(Frozen):
    """The comparison that a curriculum is part of."""

    folder: str = Field(title="Folder", description="Of the comparison, in the folder of runs.")
    root: str = Field(
        default="", title="Shared stage 0", description="The run there whose stage 0 this one starts from."
    )

    @property
    def directory(self) -> Path:
        """The directory of the comparison; ConfigError if that is none in the folder of runs."""
        parts = [checked_name(part, "comparison.folder") for part in self.folder.split("/")]
        return Settings().runs.joinpath(*parts)


def pools_for(spec: ComparisonSpec, directory: Path) -> dict[str, str] | None:
    """Preset -> work pool of its deployment, if the Prefect server that is configured has one for each preset
    of a comparison; None if its curricula are to run here."""
    if not PREFECT_API_URL.value() or not directory.resolve().is_relative_to(Settings().runs.resolve()):
        return None
    presets = [*map(spec.preset_of, spec.children), *spec.roots.values()]
    pools = {}
    with get_client(sync_client=True) as client:
        for name in sorted({preset.name for preset in presets}):
            try:
                pools[name] = client.read_deployment_by_name(f"curriculum/{name}").work_pool_name or ""
            except ObjectNotFound:
                log.warning(
                    "the Prefect server has no deployment curriculum/%s: the curricula run here, as"
                    " processes; to give them to workers, name it in prefect.yaml and run prefect deploy"
                    " --all",
                    name,
                )
                return None
    return pools


def schedule_again(client: SyncPrefectClient, run: UUID) -> bool:
    """Schedule a crashed run again unless it has crashed more than `CRASHES` times."""
    states = client.read_flow_run_states(run)
    if sum(state.is_crashed() for state in states) > CRASHES:
        return False
    client.set_flow_run_state(run, Scheduled(message="resumed by its comparison"), force=True)
    return True


class Followed:
    """A run on a worker: tells when its state changes, and what it says itself, where its log can be read."""

    def __init__(self, directory: Path, title: str) -> None:
        self._run, self._title, self._state = Run(directory=directory), title, ""
        self._line, self._throttle = self._last(), Throttle(SAY)

    def look(self, state: State) -> None:
        """Tell what is new."""
        if state.name and state.name != self._state:
            self._state = state.name
            log.info("%s: %s", self._title, state.name.lower())
        if self._throttle.ready() and (line := self._last()) != self._line:
            self._line = line
            log.info("%s: %s", self._title, line.partition("  ")[2])  # without its time

    def _last(self) -> str:
        return "".join(log_lines(self._run, 1))


def address(flow_run: UUID) -> str:
    """Where Prefect's UI shows a flow run; its id if no UI is known."""
    return url_for("flow-run", flow_run) or f"flow run {flow_run}"


class DeployedRuns:
    """Runs curricula of a comparison on workers. Of those that it starts or finds it waits for the end."""

    def __init__(self, directory: Path, pools: Mapping[str, str], record: str | None = None) -> None:
        """Runs of this flow run, on the work pools of their presets. `record` is the MLflow run above
        theirs."""
        self.directory, self.pools = directory, pools
        self.folder = directory.resolve().relative_to(Settings().runs.resolve()).as_posix()
        self.variables = {"env": {"ENVWRIGHT_PARENT_RUN": record}} if record else None
        self._lock, self._stopped, self._waiting = threading.Lock(), threading.Event(), set[str]()
        self._looked: dict[str, float] = {}
        self._told: dict[str, str] = {}

    def run(self, name: str, title: str, preset: Preset, root: str = "") -> None:
        """Have one curriculum run to its end, from the stage 0 of `root` if it is new; ChildError if it
        fails. One that is under way is awaited instead."""
        directory = self.directory / name
        with get_client(sync_client=True) as client:
            assert isinstance(client, SyncPrefectClient)
            if found := self._under_way(client, f"{self.folder}/{name}"):
                log.info("%s: is under way, waiting for it: %s", title, address(found.id))
                self._wait(client, found.id, name, title, preset)
            fetch_run(directory)
            if finished(directory, preset):
                return
            self._wait(client, self._start(client, name, title, preset, root), name, title, preset)
        fetch_run(directory)
        if not finished(directory, preset):
            raise RunDirectoryError(
                f"{directory}: its run has ended, and its results are not there; this machine and the workers"
                " need the same ENVWRIGHT_RUNS, or the same ENVWRIGHT_REMOTE"
            )

    def stop(self) -> None:
        """Wait for no run any more; what the workers do goes on."""
        if waiting := ", ".join(sorted(self._waiting)):
            log.warning(
                "%s: their runs go on; the same command waits for them again, prefect flow-run cancel ID ends"
                " one",
                waiting,
            )
        self._stopped.set()

    def _under_way(self, client: SyncPrefectClient, tag: str) -> FlowRun | None:
        going = FlowRunFilterStateType(not_any_=sorted(TERMINAL_STATES))
        wanted = FlowRunFilter(tags=FlowRunFilterTags(all_=[tag]), state=FlowRunFilterState(type=going))
        return next(iter(client.read_flow_runs(flow_run_filter=wanted)), None)

    def _start(self, client: SyncPrefectClient, name: str, title: str, preset: Preset, root: str) -> UUID:
        """The flow run of a curriculum; two comparisons that start it at the same time get the same one."""
        tag, deployment = f"{self.folder}/{name}", f"curriculum/{preset.name}"
        earlier = client.read_flow_runs(flow_run_filter=FlowRunFilter(tags=FlowRunFilterTags(all_=[tag])))
        membership = Membership(folder=self.folder, root=root)
        # As text: PostgreSQL sorts the keys of an object, and their order decides the validation set.
        given = {"preset": preset.model_dump_json(), "name": name, "comparison": membership.model_dump()}
        for attempt in count(len(earlier)):
            # Prefect numbers the children of a flow run without a lock.
            with self._lock:
                made = run_deployment(
                    deployment,
                    flow_run_name=tag,
                    parameters=given,
                    timeout=0,
                    tags=[tag],
                    idempotency_key=f"{tag} {attempt}",
                    job_variables=self.variables,
                )
            assert isinstance(made, FlowRun)
            if made.state is None or not made.state.is_final():
                log.info("%s: a run of %s, %s", title, deployment, address(made.id))
                return made.id
        raise AssertionError

    def _wait(self, client: SyncPrefectClient, run: UUID, name: str, title: str, preset: Preset) -> None:
        """Wait for the end of a flow run; ChildError if it is no good one."""
        self._waiting.add(title)
        try:
            followed = Followed(self.directory / name, title)
            state = self._ended(client, run, title, self.pools[preset.name], followed)
        finally:
            self._waiting.discard(title)
        if not state.is_completed():
            raise ChildError(f"{address(run)} is {state.name}: {state.message}")

    def _ended(
        self, client: SyncPrefectClient, run: UUID, title: str, pool: str, followed: Followed
    ) -> State:
        """The state that a flow run ends in. One that crashed is scheduled again if nobody else does that."""
        answered, crashed = time.monotonic(), None
        while not self._stopped.wait(LOOK):
            now = time.monotonic()
            try:
                state = client.read_flow_run(run).state
                if state and state.is_scheduled():
                    self._look_for_workers(client, pool, now)
                elif state and state.is_crashed() and crashed and now - crashed > GRACE:
                    if not schedule_again(client, run):
                        return state
                    log.warning("%s: %s; scheduled again", title, state.message)
            except httpx.HTTPError:
                if now - answered > OUTAGE:
                    raise
                continue
            answered = now
            if state:
                followed.look(state)
            crashed = (crashed or now) if state and state.is_crashed() else None
            if state and state.is_final() and not state.is_crashed():
                return state
        raise ChildError(f"{address(run)} is not waited for any more")

    def _look_for_workers(self, client: SyncPrefectClient, pool: str, now: float) -> None:
        """Say once if nobody takes runs from a work pool, and what to do."""
        with self._lock:
            if not pool or now - self._looked.get(pool, -LOOK_AT_POOL) < LOOK_AT_POOL:
                return
            self._looked[pool] = now
            status, problem = client.read_work_pool(pool).status, ""
            if status == WorkPoolStatus.PAUSED:
                problem = f"is paused, so that curricula wait: prefect work-pool resume {pool}"
            elif status == WorkPoolStatus.NOT_READY:
                problem = (
                    "has no worker online, so that curricula wait for one; start it where they are to run:"
                    f" prefect worker start --pool {pool}"
                )
            if problem and problem != self._told.get(pool):
                log.warning("work pool %s %s", pool, problem)
            self._told[pool] = problem
