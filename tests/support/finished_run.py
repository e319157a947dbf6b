"""One finished run of a preset, made once for all tests of a run of pytest, whatever worker they are in."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from support.envwright_command import LOG, envwright, killed_once
from support.prefect_servers import ask, flow_runs

TRAINED, SIMULATED = "micro", "simulated"
NAMES = {TRAINED: "micro-checkpoint-V6-s0", SIMULATED: "simulated-frontier-V6-s0"}
"""Preset -> name of its run."""
MID_TRAINING = "stage-01/work/*/checkpoint-*/files.json"
"""File of the trained run that exists while its second stage trains: the run is killed there once."""


@dataclass(frozen=True)
class FinishedRun:
    """Where it is, what it printed, and what the Prefect server that it ran against knew of it. Nobody
    changes it: see `copy_to`."""

    folder: Path
    name: str
    printed: str
    flow_runs: list[dict[str, Any]]
    messages: list[str]
    cached: list[str]

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self.folder / "runs" / self.name

    def copy_to(self, folder: Path) -> Path:
        """A copy of the run directory, among the runs of `folder`."""
        return shutil.copytree(self.directory, folder / "runs" / self.name)


def finished_run(shared: Path, preset: str, server: Callable[[], str]) -> FinishedRun:
    """The run of two stages in `shared`, made against a Prefect server by the first who asks; others wait.

    The trained run is killed in its second stage, and ends by the same command.
    """
    folder, record = shared / preset, shared / f"{preset}.json"
    with FileLock(shared / f"{preset}.lock"):
        if not record.exists():
            folder.mkdir()
            api = server()
            earlier = [run["id"] for run in flow_runs(api)]
            command, printed = ("run", preset, "--stages", 2), ""
            if preset == TRAINED:
                run = folder / "runs" / NAMES[preset]
                killed_once(lambda: any(run.glob(MID_TRAINING)), folder, *command, PREFECT_API_URL=api)
                printed = (folder / LOG).read_text()
            printed += envwright(folder, *command, PREFECT_API_URL=api).stdout
            messages = [entry["message"] for entry in ask(f"{api}/logs/filter")]
            made = [run for run in flow_runs(api) if run["id"] not in earlier]
            tasks = ask(f"{api}/task_runs/filter")
            cached = [task["name"].split("-")[0] for task in tasks if task["state"]["name"] == "Cached"]
            values = {"printed": printed, "flow_runs": made, "messages": messages, "cached": cached}
            record.write_text(json.dumps(values))
    return FinishedRun(folder=folder, name=NAMES[preset], **json.loads(record.read_text()))
