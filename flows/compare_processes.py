"""Processes that run curricula of a comparison here, among which cores and GPUs are shared out."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen

from prefect.client.orchestration import get_client

from envgen.processes import ended
from infra.config.preset import Preset
from policy.child import TAIL_LINES, start_child, stop_child
from policy.devices import VISIBLE, Shares, visible_devices
from policy.grpo.launch import process_count
from tasks.run import log

_PATIENCE = 4.0
"""Seconds in which a curriculum may tell Prefect that it was ended."""


class Processes:
    """Starts curricula, `jobs` at a time, each with its shares of the machine."""

    def __init__(self, directory: Path, jobs: int, shares: Shares, environment: dict[str, str]) -> None:
        """Output goes to `logs/` in the directory of the comparison; all of them get `environment`."""
        self._directory, self._shares = directory, shares
        with get_client(sync_client=True) as client:
            server = {"PREFECT_API_URL": str(client.api_url).rstrip("/")}
        console = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "INFO"}  # their output is kept
        self._environment = share_of_cores(jobs) | server | console | environment

    @contextmanager
    def started(self, name: str, title: str, flow_run: str) -> Iterator[Popen]:
        """A process in which the flow run of a curriculum runs; it is ended behind the block."""
        path = output_of(self._directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._shares.lent() as devices, open(path, "ab") as output:
            if devices:
                log.info("%s: on GPU %s", title, devices[VISIBLE])
            process = start_child(
                "prefect.flow_engine",
                ["flows.curriculum.curriculum"],
                self._environment | devices | {"PREFECT__FLOW_RUN_ID": flow_run},
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
            )
            try:
                yield process
            finally:
                stop_child(process, _PATIENCE)


def output_of(directory: Path, name: str) -> Path:
    """The file that has the output of a curriculum of the comparison in a directory."""
    return directory / "logs" / f"{name}.log"


def last_words(path: Path, code: int) -> str:
    """How a process with this output ended that could not say it itself."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]
    return f"its process {ended(code)}; last lines:\n" + "\n".join(lines)[-2000:]


def shares_of_gpus(preset: Preset, jobs: int) -> Shares:
    """The GPUs that can be seen, dealt out to curricula of a preset, `jobs` at a time.

    Says so where some have to share; ConfigError if there are too few for one of them.
    """
    shares = Shares(visible_devices(), jobs, gpus_needed(preset))
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
