"""The flow of a comparison: one shared stage 0, then a curriculum for every engineer variant and seed, each a
run of the deployment `curriculum/PRESET`, which workers take, or a process of this machine."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from typing import Any
from uuid import UUID

import httpx
from prefect import Task, flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from prefect.runtime import flow_run
from prefect.states import Crashed, Pending, Scheduled, State
from prefect.utilities.urls import url_for

from envgen.errors import ChildError, RunDirectoryError
from envgen.processes import ended
from flows.curriculum import curriculum
from flows.parameters import USUAL_COMPARISON, ComparisonOptions, Jobs, PresetChoice, chosen_comparison
from infra.analysis.gather import finished
from infra.analysis.results import ComparisonResults
from infra.analysis.spec import Child, ComparisonSpec, open_comparison
from infra.config.preset import Preset
from infra.config.settings import Settings
from infra.mlflow_log import is_logged
from infra.runs.lock import exclusive
from infra.runs.progress import new_lines
from infra.runs.run import Run
from infra.serving.pools import pool_for
from infra.serving.reaper import TAG
from policy.child import TAIL_LINES, start_child, stop_child
from policy.devices import VISIBLE, Shares, share_of_cores
from policy.grpo.launch import process_count
from tasks.compare import earlier_failures, open_record, publish_comparison
from tasks.remote import fetch_run
from tasks.run import log, run_each

LOOK, LOOK_AT_PROCESS = 3.0, 1.0
"""Seconds between two looks at a run on a worker, and at a process of this machine."""
CRASHES, CRASH_DELAY = 3, timedelta(seconds=20)
"""Crashes of a run on a worker after which it is scheduled again, and the time until it starts."""
OUTAGE, PATIENCE = 600.0, 4.0
"""Seconds that the Prefect server may be silent, and in which a stopped process may report its end to it."""


def _run_name() -> str:
    """The name of the comparison that this flow run is asked for."""
    parameters = flow_run.parameters
    return parameters["name"] or f"compare {parameters['preset']}"


@flow(name="compare", flow_run_name=_run_name)
def compare(
    preset: PresetChoice,
    name: str = "",
    options: ComparisonOptions = USUAL_COMPARISON,
    jobs: Jobs | None = None,
) -> ComparisonResults:
    """Run every engineer variant with every seed from one shared stage 0, and sum up what they show.

    A repeated call with the same name continues; engineers, seeds and stages may be added. A curriculum that
    fails costs no other one: the rest is finished and published, then ChildError is raised.

    Args:
        preset: A shipped preset, or the path of a YAML file on the machine that runs it.
        name: Name of the comparison; an existing one is continued. Left out, it is made from the preset.
        options: Engineers, seeds, and what all curricula change in the preset.
        jobs: Curricula at a time. Left out: as many as the workers take where they are runs of a deployment,
            else one. In processes of this machine they share the cores, and each gets different GPUs while
            there are enough.
    """
    spec = chosen_comparison(preset, name, options)
    directory, pool = Settings().run_directory(spec.name), pool_for(spec.preset.name)
    jobs = jobs or (1 if pool is None else None)  # on a pool the workers decide
    shares = Shares.visible(jobs or 1, gpus_needed(spec.preset)) if pool is None else None
    with exclusive(directory):
        whole = open_comparison(directory, spec)
        record = open_record(directory, whole)
        environment = {"ENVWRIGHT_PARENT_RUN": record} if record else {}
        environment |= share_of_cores(jobs or 1) if shares else {}
        names = {child.name for child in spec.children}
        wanted = [child for child in whole.children if child.name in names]
        results = _run_all(directory, whole, wanted, Curricula(directory, pool, shares, environment), jobs)
    _complain(results, wanted)
    return results


def _complain(results: ComparisonResults, wanted: list[Child]) -> None:
    """ChildError if curricula of this call failed; failures of an earlier call, for other engineers or
    seeds, are only marked in the table."""
    failed = {child.name for child in results.failed}
    if names := [child.name for child in wanted if child.name in failed]:
        raise ChildError(
            f"{len(names)} of {len(wanted)} curricula failed: {', '.join(names)}. Run the same command again"
            " to continue them"
        )


def _run_all(
    directory: Path, spec: ComparisonSpec, wanted: list[Child], runs: "Curricula", jobs: int | None
) -> ComparisonResults:
    """Run the unfinished curricula, after each shared stage 0 that a new one starts from."""
    todo = _todo(directory, wanted)
    at_a_time = f"; {min(jobs, max(1, len(todo)))} at a time" if jobs else ""
    log.info("%d curricula, %d of them finished already%s", len(wanted), len(wanted) - len(todo), at_a_time)
    names = {child.name for child in todo}
    failures = {name: why for name, why in earlier_failures(directory).items() if name not in names}

    def child_ended(child: Child, error: BaseException | None, progress: str) -> None:
        if error is None:
            log.info("%s: finished; %s", child.title, progress)
        else:
            reason = str(error) or type(error).__name__
            log.error("%s: failed, %s: %s", child.title, progress, reason)
            dependants = [each.name for each in new if each.root == child.name]
            failures.update(
                dict.fromkeys(dependants, f"{child.title} failed: {reason}") or {child.name: reason}
            )
        publish_comparison(directory, spec, failures)

    new = [child for child in todo if not (directory / child.name).exists()]
    needed = [root for root in spec.roots if root.name in {child.root for child in new}]
    roots = [root for root in needed if not finished(directory / root.name, root.preset)]
    for group in (roots, todo):
        startable = [child for child in group if child.name not in failures]
        run_each(startable, jobs, runs.run, child_ended, runs.stop)
    return publish_comparison(directory, spec, failures, last=True)


def _todo(directory: Path, wanted: list[Child]) -> list[Child]:
    """Return the unfinished children, and those without a record in MLflow, which only record."""

    def is_done(child: Child) -> bool:
        return bool(finished(directory / child.name, child.preset)) and is_logged(directory / child.name)

    return [child for child in wanted if not is_done(child)]


@dataclass
class Curricula:
    """Runs curricula of a comparison, linked below this flow run, and awaits their ends."""

    directory: Path
    pool: str | None
    """Work pool of their deployment; None: they run as processes of this machine."""
    shares: Shares | None
    """GPUs of the processes."""
    environment: Mapping[str, str]
    """Environment variables of each curriculum, added to the environment of the worker or of this process."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Await no run any more; runs on workers go on, processes of this machine end."""
        self._stopped.set()

    def run(self, child: Child) -> None:
        """Run one curriculum to its end, or await it if it is running on a worker; ChildError if it fails."""
        directory, tag = self.directory / child.name, f"{self.directory.name}/{child.name}"
        with get_client(sync_client=True) as client:
            tagged = FlowRunFilter(tags=FlowRunFilterTags(all_=[tag]))
            earlier = client.read_flow_runs(flow_run_filter=tagged)
            running = [run for run in earlier if run.state and not run.state.is_final()]
            for run in running:
                log.info("%s: is under way, waiting for it: %s", child.title, address(run.id))
                self._wait(client, run.id, child)
                fetch_run(directory)
            if not (running and finished(directory, child.preset)):
                self._run(client, child, tag, f"{tag} {len(earlier)}")
        fetch_run(directory)
        if not finished(directory, child.preset):
            raise RunDirectoryError(
                f"{directory}: its run ended without an error, but its results are not there, not complete or"
                " not readable; this machine and the workers need the same ENVWRIGHT_RUNS, or the same"
                " ENVWRIGHT_REMOTE"
            )

    def _run(self, client: SyncPrefectClient, child: Child, tag: str, key: str) -> None:
        """Start a curriculum and await its end; comparisons that start it with one key get the same run."""
        # As text: PostgreSQL sorts the keys of an object, and their order decides the validation set.
        parameters: dict[str, Any] = {"preset": child.preset.model_dump_json(), "name": child.name}
        parameters["comparison"] = {"folder": self.directory.name, "root": child.root}
        if self.pool is None:
            task, parent = Task(name=child.title, fn=curriculum.fn), UUID(flow_run.id)
            step = client.create_task_run(task, parent, child.name, name=child.title, state=Pending())
            link = {"parent_task_run_id": step.id, "state": Pending(), "tags": [TAG]}
            made = client.create_flow_run(curriculum, name=tag, parameters=parameters, **link)
            with self.process(child.name, child.title, str(made.id)) as process:
                return self._wait(client, made.id, child, process)
        with self._lock:  # Prefect numbers the children of a flow run without one
            made = run_deployment(
                f"curriculum/{child.preset.name}",
                flow_run_name=tag,
                parameters=parameters,
                timeout=0,
                tags=[tag],
                idempotency_key=key,
                job_variables={"env": dict(self.environment)} if self.environment else None,
            )
        assert isinstance(made, FlowRun)
        log.info("%s: a run of curriculum/%s, %s", child.title, child.preset.name, address(made.id))
        self._wait(client, made.id, child)

    @contextmanager
    def process(self, name: str, title: str, run: str) -> Iterator[Popen]:
        """Run a flow run in a process, with its output in a file; the process ends with the block."""
        assert self.shares is not None
        path = self._output(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with get_client(sync_client=True) as client:
            server = {"PREFECT_API_URL": str(client.api_url).rstrip("/"), "PREFECT__FLOW_RUN_ID": run}
        console = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "INFO"}
        with self.shares.lent() as devices, open(path, "ab") as output:
            if devices:
                log.info("%s: on GPU %s", title, devices[VISIBLE])
            variables = {**self.environment, **console, **server, **devices}
            streams = {"stdin": DEVNULL, "stdout": output, "stderr": STDOUT}
            process = start_child(
                "prefect.flow_engine", ["flows.curriculum.curriculum"], variables, **streams
            )
            try:
                yield process
            finally:
                stop_child(process, PATIENCE)

    def _output(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"

    def _wait(self, client: SyncPrefectClient, run: UUID, child: Child, process: Popen | None = None) -> None:
        """Await the end of a flow run and repeat its log here; ChildError if it does not complete."""
        files = Run(directory=self.directory / child.name)
        _, read = new_lines(files, 0)
        answered, last_state = time.monotonic(), ""
        while not self._stopped.wait(LOOK_AT_PROCESS if process else LOOK):
            exited = process is not None and process.poll() is not None  # before its state is read
            try:
                state = self._state(client, run, child, process if exited else None)
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
                output = f"; its output is in {self._output(child.name)}" if process else ""
                raise ChildError(f"{address(run)} is {state.name}: {state.message}{output}")
        if not process:
            remedy = "the same command waits for it again, prefect flow-run cancel ends it"
            log.warning("%s: %s goes on; %s", child.title, address(run), remedy)
        raise ChildError(f"{address(run)} is not waited for any more")

    def _state(self, client: SyncPrefectClient, run: UUID, child: Child, exited: Popen | None) -> State:
        """Read the state of a flow run; set it where its process exited silently, or its worker crashed."""
        state = client.read_flow_run(run).state or Pending()
        if exited and not state.is_final():
            output = self._output(child.name).read_text(encoding="utf-8", errors="replace")
            last_lines = "\n".join(output.splitlines()[-TAIL_LINES:])[-1900:]
            state = Crashed(message=f"its process {ended(exited.returncode)}; last lines:\n{last_lines}")
            client.set_flow_run_state(run, state, force=True)
        elif self.pool is not None and state.is_crashed():
            crashes = [earlier for earlier in client.read_flow_run_states(run) if earlier.is_crashed()]
            if len(crashes) <= CRASHES:
                log.warning("%s: %s; scheduled again", child.title, state.message)
                later = datetime.now(UTC) + CRASH_DELAY
                state = Scheduled(scheduled_time=later, message="resumed by its comparison")
                client.set_flow_run_state(run, state, force=True)
        return state


def gpus_needed(preset: Preset) -> int:
    """Return how many GPUs a curriculum uses at the same time."""
    engine = preset.engine
    return max(process_count(preset.training), engine.data_parallel * engine.tensor_parallel)


def address(flow_run: UUID) -> str:
    """Return the address of a flow run in Prefect's UI; its id without a UI."""
    return url_for("flow-run", flow_run) or f"flow run {flow_run}"
