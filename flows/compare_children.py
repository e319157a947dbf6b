"""The child processes of a comparison, seen from the comparison."""

import logging
import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from subprocess import Popen
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.runtime import flow_run
from prefect.states import Crashed

from envgen.errors import BUGS, ChildError
from flows.compare_child import CurriculumSpec
from infra.config.preset import Preset
from infra.runs.fork import fork
from policy.child import run_child, stop_child
from policy.devices import VISIBLE, Shares, visible_devices
from policy.grpo.launch import process_count
from tasks.run import log

_PATIENCE = 4.0
"""Seconds in which a curriculum may tell Prefect that it was ended."""


class Children:
    """Runs curricula of a comparison in child processes and can stop them all."""

    def __init__(self, directory: Path, jobs: int, shares: Shares, record: str | None = None) -> None:
        """Children of this flow run, `jobs` at a time, with these shares of the GPUs.

        `record` is the MLflow run above theirs.
        """
        self.shares = shares
        self.directory, self.environment, self.parent = directory, _environment(jobs, record), flow_run.id
        self._running: set[Popen] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, name: str, title: str, preset: Preset, root: str = "") -> None:
        """Run one curriculum to its end in a child of this thread, from the stage 0 of `root` if it is new;
        ChildError if it fails. Its output is in `logs/`."""
        parent = UUID(self.parent) if self.parent else None
        directory = (self.directory / name).resolve()
        if root:
            fork(self.directory / root, directory, preset)
        spec = CurriculumSpec(directory=directory, title=title, preset=preset, parent=parent)
        flow_runs: list[str] = []

        def progress(entry: dict) -> None:
            if "flow_run" in entry:
                flow_runs.append(entry["flow_run"])
            else:
                log.log(entry.get("level", logging.INFO), "%s: %s", title, entry.get("message", ""))

        (self.directory / ".specs").mkdir(parents=True, exist_ok=True)
        children: list[Popen] = []

        def started(child: Popen) -> None:
            children.append(child)
            with self._lock:
                self._running.add(child)
                stopped = self._stopped
            if stopped:
                stop_child(child)

        try:
            with self.shares.one() as devices:
                if devices:
                    log.info("%s: on GPU %s", title, devices[VISIBLE])
                run_child(
                    "flows.compare_child",
                    spec,
                    self.directory / ".specs" / f"{name}.json",
                    self.directory / "logs" / f"{name}.log",
                    progress,
                    environment=self.environment | devices,
                    started=started,
                )
        except ChildError as error:
            _crashed(flow_runs, str(error))
            raise
        finally:
            with self._lock:
                self._running.difference_update(children)

    def stop(self) -> None:
        """End all children at the same time, and those that are about to start."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        if running:
            with ThreadPoolExecutor(len(running)) as pool:
                list(pool.map(partial(stop_child, patience=_PATIENCE), running))


def _environment(jobs: int, record: str | None) -> dict[str, str]:
    """What children are told besides their spec: the server of this flow, the record above theirs, and their
    share of the cores."""
    with get_client(sync_client=True) as client:
        server = str(client.api_url).rstrip("/")
    above = {"ENVWRIGHT_PARENT_RUN": record} if record else {}
    return share_of_cores(jobs) | {"PREFECT_API_URL": server} | above


def shares_of_gpus(presets: Iterable[Preset], jobs: int) -> Shares:
    """The GPUs that can be seen, dealt out to curricula of these presets, `jobs` at a time.

    Says so where some have to share; ConfigError if there are too few for one of them.
    """
    needed = max((gpus_needed(preset) for preset in presets), default=1)
    shares = Shares(visible_devices(), jobs, needed)
    if shares.shared:
        log.warning(
            "%d curricula at a time share the GPUs %s; if memory does not suffice, lower --jobs to %d",
            jobs,
            " and ".join(shares.blocks),
            len(shares.blocks),
        )
    return shares


def gpus_needed(preset: Preset) -> int:
    """GPUs that a curriculum uses at the same time, where it has any."""
    engine = preset.engine
    return max(process_count(preset.training), engine.data_parallel * engine.tensor_parallel)


def share_of_cores(jobs: int) -> dict[str, str]:
    """How many threads each of `jobs` children may start; what the user has set is left alone."""
    share = str(max(1, (os.cpu_count() or 1) // jobs))
    return {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", share)} if jobs > 1 else {}


def _crashed(flow_runs: list[str], reason: str) -> None:
    """Tell Prefect about a curriculum that could not say itself how it ended."""
    try:
        with get_client(sync_client=True) as client:
            for flow_run in flow_runs:
                state = client.read_flow_run(UUID(flow_run)).state
                if state is None or not state.is_final():
                    client.set_flow_run_state(UUID(flow_run), Crashed(message=reason[-2000:]), force=True)
    except BUGS:
        raise
    except Exception as error:  # the state in Prefect is a view only
        log.warning("Prefect was not told of the end of a curriculum: %s", error)
