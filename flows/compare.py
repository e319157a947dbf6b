"""The flow of a comparison: the shared stages 0, then a curriculum for every arm and seed, each a run of the
deployment `curriculum/PRESET`, which workers take, or a process of this machine."""

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from prefect.states import Crashed, Pending
from prefect.utilities.urls import url_for

from envgen.errors import ChildError, ConfigError, RunDirectoryError
from envgen.processes import ended
from flows.curriculum import curriculum
from flows.parameters import USUAL_COMPARISON, ComparisonOptions, Jobs, PresetChoice, chosen_comparison
from infra.comparison.finished import is_finished
from infra.comparison.results import ComparisonResults
from infra.comparison.spec import Child, ComparisonSpec, open_comparison
from infra.config.preset import Preset
from infra.config.settings import TAG, Settings
from infra.mlflow_log import is_logged
from infra.runs.lock import exclusive
from infra.runs.run import Run
from infra.runs.run_log import new_lines
from infra.serving.pools import pool_for
from policy.child import TAIL_LINES, start_child, stop_child
from policy.devices import VISIBLE, device_blocks, share_of_cores
from policy.grpo.launch import process_count, server_address
from tasks.compare import earlier_failures, open_record, publish_comparison, run_each
from tasks.design import check_engineer
from tasks.run import log

LOOK, LOOK_AT_PROCESS = 3.0, 1.0
"""Seconds between two looks at a run on a worker, and at a process of this machine."""
OUTAGE, PATIENCE = 600.0, 4.0
"""Seconds that the Prefect server may be silent, and in which a stopped process may report its end to it."""


@flow(
    name="compare",
    flow_run_name=lambda: flow_run.parameters["name"] or f"compare {flow_run.parameters['preset']}",
)
def compare(
    preset: PresetChoice,
    name: str = "",
    options: ComparisonOptions = USUAL_COMPARISON,
    jobs: Jobs | None = None,
) -> ComparisonResults:
    """Run every arm with every seed, and sum up what they show.

    A repeated call with the same name continues; arms and seeds may be added. A curriculum that fails
    costs no other one: the rest is finished and published, then ChildError is raised. ModelError if the
    endpoint of an engineer does not answer before anything is trained.

    Args:
        preset: A shipped preset, or the path of a preset or comparison file on the machine that runs it.
        name: Name of the comparison; an existing one is continued. Left out, it is made from the preset.
        options: Engineers, seeds, and what all curricula change in the preset; none with a comparison file.
        jobs: Curricula at a time. Left out: as many as the workers take where they are runs of a deployment,
            else one. In processes of this machine they share the cores, and each gets different GPUs while
            there are enough.
    """
    spec, text = chosen_comparison(preset, name, options)
    directory, pool = Settings().run_directory(spec.name), pool_for(spec.base.name)
    jobs = jobs or (1 if pool is None else None)  # on a pool the workers decide
    if jobs != 1 and any(server_address(each.trl) for each in spec.presets.values()):
        problem = "one curriculum at a time can train with a vLLM server, which has the weights of one policy"
        raise ConfigError(f"--jobs: {problem}; use --jobs 1, or trl.vllm_mode colocate")
    needed = max(map(gpus_needed, spec.presets.values()))
    blocks = deque(device_blocks(jobs or 1, needed) if pool is None else [])
    if pool is None:  # workers have other keys
        new = [child for child in spec.children if not (directory / child.name).exists()]
        for arm in {child.arm: child.preset for child in new}.values():
            check_engineer(arm)
    with exclusive(directory):
        whole = open_comparison(directory, spec, text)
        environment = share_of_cores(jobs or 1) if pool is None else {}
        if record := open_record(directory, whole):
            environment["ENVWRIGHT_PARENT_RUN"] = record
        names = {child.name for child in spec.children}
        wanted = [child for child in whole.children if child.name in names]
        results = _run_all(directory, whole, wanted, Curricula(directory, pool, blocks, environment), jobs)
    _complain(results, wanted)
    return results


def _complain(results: ComparisonResults, wanted: list[Child]) -> None:
    """ChildError if curricula of this call failed, not of an earlier call for other arms or seeds."""
    names = [child.name for child in results.troubled if child.name in {each.name for each in wanted}]
    if names:
        problem = f"{len(names)} of {len(wanted)} curricula failed: {', '.join(names)}"
        raise ChildError(f"{problem}. Run the same command again to continue them")


def _run_all(
    directory: Path, spec: ComparisonSpec, wanted: list[Child], runs: "Curricula", jobs: int | None
) -> ComparisonResults:
    """Run the unfinished curricula, after each stage 0 that a new one starts from."""
    todo = [child for child in wanted if not _is_done(directory / child.name, child)]
    log.info("%d curricula, %d of them finished already", len(wanted), len(wanted) - len(todo))
    names = {child.name for child in todo}
    failures = {name: why for name, why in earlier_failures(directory).items() if name not in names}

    def child_ended(child: Child, error: BaseException | None, progress: str) -> None:
        if error is None:
            log.info("%s: finished; %s", child.name, progress)
        else:
            reason = str(error) or type(error).__name__
            log.error("%s: failed, %s: %s", child.name, progress, reason)
            after = {each.name: f"{child.name} failed: {reason}" for each in new if each.root == child.name}
            failures.update(after or {child.name: reason})
        publish_comparison(directory, spec, failures)

    new = [child for child in todo if not (directory / child.name).exists()]
    needed = [root for root in spec.roots if root.name in {child.root for child in new}]
    roots = [root for root in needed if not is_finished(directory / root.name, root.preset)]
    for group in (roots, todo):
        startable = [child for child in group if child.name not in failures]
        run_each(startable, jobs, runs.run, child_ended, runs.stop)
    return publish_comparison(directory, spec, failures, last=True)


def _is_done(directory: Path, child: Child) -> bool:
    """Whether a curriculum is finished and in MLflow; one that is not there only records."""
    return is_finished(directory, child.preset) and is_logged(directory)


@dataclass
class Curricula:
    """Runs curricula of a comparison, linked below this flow run, and awaits their ends."""

    directory: Path
    pool: str | None
    """Work pool of their deployment; None: they run as processes of this machine."""
    blocks: deque[str]
    """GPUs of the processes that do not run yet, as CUDA_VISIBLE_DEVICES names them; empty: all see all."""
    environment: Mapping[str, str]
    """Environment variables of each curriculum, added to the environment of the worker or of this process."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """Await no run any more; runs on workers go on, processes of this machine end."""
        self._stopped.set()

    def run(self, child: Child) -> None:
        """Run one curriculum to its end, or await it if it is running on a worker; ChildError if it fails."""
        directory = self.directory / child.name
        # As text: PostgreSQL sorts the keys of an object, and their order decides the validation set.
        parameters: dict[str, Any] = {"preset": child.preset.model_dump_json(), "name": child.name}
        parameters["comparison"] = {"folder": self.directory.name, "root": child.root}
        with get_client(sync_client=True) as client:
            if self.pool is None:
                self._run_here(client, child, parameters)
            else:
                self._wait(client, self._deployed(client, child, parameters), child)
        if not is_finished(directory, child.preset):
            problem = "its run ended without an error, but its results are missing or not readable"
            remedy = "this machine and the workers need the same ENVWRIGHT_RUNS"
            raise RunDirectoryError(f"{directory}: {problem}; {remedy}")

    def _deployed(self, client: SyncPrefectClient, child: Child, parameters: dict[str, Any]) -> UUID:
        """Return the run of the deployment that goes on for a curriculum; it is started if none does."""
        tag = f"{self.directory.name}/{child.name}"
        tagged = FlowRunFilter(tags=FlowRunFilterTags(all_=[tag]))
        earlier = client.read_flow_runs(flow_run_filter=tagged)
        # The key of a run that goes on has the number of those that had ended: it is returned again.
        past = sum(run.state is not None and run.state.is_final() for run in earlier)
        with self._lock:  # Prefect numbers the children of a flow run without one
            made = run_deployment(
                f"curriculum/{child.preset.name}",
                flow_run_name=tag,
                parameters=parameters,
                timeout=0,
                tags=[tag],
                idempotency_key=f"{tag} {past}",
                job_variables={"env": dict(self.environment)} if self.environment else None,
            )
        assert isinstance(made, FlowRun)
        log.info("%s: a run of curriculum/%s, %s", child.name, child.preset.name, address(made.id))
        return made.id

    def _run_here(self, client: SyncPrefectClient, child: Child, parameters: dict[str, Any]) -> None:
        """Run a curriculum as a process of this machine, linked below this flow run."""
        task, parent = Task(name=child.name, fn=curriculum.fn), UUID(flow_run.id)
        step = client.create_task_run(task, parent, child.name, name=child.name, state=Pending())
        link = {"parent_task_run_id": step.id, "state": Pending(), "tags": [TAG]}
        name = f"{self.directory.name}/{child.name}"
        made = client.create_flow_run(curriculum, name=name, parameters=parameters, **link)
        with self.process(child.name, str(made.id)) as process:
            self._wait(client, made.id, child, process)

    @contextmanager
    def process(self, name: str, run: str) -> Iterator[Popen]:
        """Run a flow run in a process, with its output in a file; the process ends with the block."""
        path = self._output(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with get_client(sync_client=True) as client:
            server = {"PREFECT_API_URL": str(client.api_url).rstrip("/"), "PREFECT__FLOW_RUN_ID": run}
        console = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "INFO"}
        block = self.blocks.popleft() if self.blocks else None
        if block:
            log.info("%s: on GPU %s", name, block)
        variables = {**self.environment, **console, **server, **({VISIBLE: block} if block else {})}
        try:
            with open(path, "ab") as output:
                streams = {"stdin": DEVNULL, "stdout": output, "stderr": STDOUT}
                flow = ["flows.curriculum.curriculum"]
                process = start_child("prefect.flow_engine", flow, variables, **streams)
            try:
                yield process
            finally:
                stop_child(process, PATIENCE)
        finally:
            if block:
                self.blocks.append(block)

    def _output(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"

    def _wait(self, client: SyncPrefectClient, run: UUID, child: Child, process: Popen | None = None) -> None:
        """Await the end of a flow run and repeat its log here; ChildError if it does not complete."""
        files = Run(directory=self.directory / child.name)
        _, read = new_lines(files, 0)
        answered = time.monotonic()
        while not self._stopped.wait(LOOK_AT_PROCESS if process else LOOK):
            exited = process is not None and process.poll() is not None  # before its state is read
            try:
                state = client.read_flow_run(run).state or Pending()
            except httpx.HTTPError:
                if time.monotonic() - answered > OUTAGE:
                    raise
                continue
            answered = time.monotonic()
            lines, read = new_lines(files, read)
            for line in lines:
                log.info("%s: %s", child.name, line.partition("  ")[2])  # without its time
            if state.is_completed():
                return
            if process and exited and not state.is_final():
                output = self._output(child.name).read_text(encoding="utf-8", errors="replace")
                last_lines = "\n".join(output.splitlines()[-TAIL_LINES:])[-1900:]
                reason = f"its process {ended(process.returncode)}; last lines:\n{last_lines}"
                client.set_flow_run_state(run, state := Crashed(message=reason), force=True)
            if state.is_final():
                where = f"; its output is in {self._output(child.name)}" if process else ""
                raise ChildError(f"{address(run)} is {state.name}: {state.message}{where}")
        if not process:
            remedy = "the same command waits for it again, prefect flow-run cancel ends it"
            log.warning("%s: %s goes on; %s", child.name, address(run), remedy)
        raise ChildError(f"{address(run)} is not awaited any more")


def gpus_needed(preset: Preset) -> int:
    """Return how many GPUs a curriculum uses at the same time."""
    engine = preset.engine
    return max(process_count(preset.training), engine.data_parallel * engine.tensor_parallel)


def address(flow_run: UUID) -> str:
    """Return the address of a flow run in Prefect's UI; its id without a UI."""
    return url_for("flow-run", flow_run) or f"flow run {flow_run}"
