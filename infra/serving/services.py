"""Long-running processes with a log each: started, waited for, watched and stopped."""

import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from envgen.errors import ChildError
from policy.child import TAIL_LINES, start_child, stop_child

START_LIMIT = 240.0
"""Seconds a server may take to answer."""
_STOP_PATIENCE, _RUN_PATIENCE = 4.0, 3.0
"""Seconds to end by oneself: of a service, of a worker's runs before it; `flows.stopping` allows for both."""
_POLL = 0.3
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens addresses of this machine, which no proxy knows."""


@dataclass
class Service:
    """A `python -m module arguments` whose output goes to a log file."""

    name: str
    module: str
    arguments: list[str]
    environment: Mapping[str, str]
    log: Path
    health: str | None = None
    """An address that answers once the service is ready."""
    process: subprocess.Popen | None = field(default=None, repr=False)
    started: float = 0.0

    def start(self) -> None:
        """Start it; the log is continued."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
            self.process = start_child(self.module, self.arguments, self.environment, **streams)
        self.started = time.monotonic()

    @property
    def ended(self) -> bool:
        """Whether it was started and is gone."""
        return self.process is not None and self.process.poll() is not None

    def answers(self) -> bool:
        """Whether its health address answers."""
        try:
            with direct.open(str(self.health), timeout=5):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """End it and its process group; by force if it takes its time."""
        if self.process is not None:
            stop_child(self.process, _STOP_PATIENCE)

    def failure(self, what: str) -> ChildError:
        """An error with the last lines of the log."""
        return ChildError(f"{self.name} {what}; its log is {self.log}. Last lines:\n{self.tail()}")

    def tail(self) -> str:
        """The last lines of the log."""
        try:
            with open(self.log, "rb") as log:
                log.seek(max(0, log.seek(0, 2) - 8000))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError:
            return "(no log)"
        return "\n".join(lines[-TAIL_LINES:])


@dataclass
class Worker(Service):
    """A Prefect worker, which kills its runs at its end without telling the server: they are ended before
    it."""

    pool: str = ""
    """The work pool that it takes runs from."""
    runs: set[int] = field(default_factory=set)
    """Processes of runs that were ended with it."""

    def stop(self) -> None:
        """Let the runs of the worker say that they crashed, then end it."""
        if self.process is not None and not self.ended:
            with suppress(psutil.Error):
                self.runs |= _end_runs(psutil.Process(self.process.pid))
        super().stop()


def _end_runs(worker: psutil.Process) -> set[int]:
    """Ask the runs of a worker to end and wait for that; their processes."""
    worker.suspend()  # it would take the next run
    try:
        runs = worker.children()
        going = runs
        # A signal that comes while a flow begins is lost; one that comes while it reports its crash would cut
        # that off.
        for _ in range(3):
            for run in going:
                with suppress(psutil.NoSuchProcess):
                    run.terminate()
            deadline = time.monotonic() + _RUN_PATIENCE / 3
            while (going := [run for run in going if _alive(run)]) and time.monotonic() < deadline:
                time.sleep(0.1)
    finally:
        worker.resume()
    return {run.pid for run in runs}


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until_ready(
    services: Sequence[Service], say: Callable[[str], None], stopped: Callable[[float], bool]
) -> bool:
    """Wait until all answer; False if `stopped`, which waits for so many seconds, says so. ChildError if one
    ends or takes too long."""
    waiting, began = list(services), time.monotonic()
    while waiting:
        for service in list(waiting):
            passed = time.monotonic() - began
            if service.ended:
                raise service.failure(f"ended with exit code {service.process.returncode}")  # type: ignore[union-attr]
            if service.answers():
                waiting.remove(service)
                say(f"{service.name} is ready after {passed:.0f} s")
            elif passed > START_LIMIT:
                raise service.failure(f"does not answer at {service.health} after {passed:.0f} s")
        if waiting and stopped(_POLL):
            return False
    return True


def stop_all(services: Sequence[Service]) -> None:
    """Stop services at the same time."""
    if services:
        with ThreadPoolExecutor(len(services)) as pool:
            list(pool.map(lambda service: service.stop(), services))
