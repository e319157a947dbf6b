"""The state of runs, read from their files alone."""

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from engineer.engineers.registry import engineer_label
from engineer.gate import BASE_POLICY
from envgen.errors import EnvwrightError
from envgen.estimates import Rate
from envgen.frozen import Frozen
from infra.config.settings import RESERVED, run_name
from infra.results import Made
from infra.runs.files import BREAKDOWN, CURRICULUM, REPORT, RESULTS
from infra.runs.lock import holder
from infra.runs.next_config import must_ask
from infra.runs.run import Run
from infra.runs.run_log import NAME, new_lines


class RunState(StrEnum):
    """What a run is doing."""

    RUNNING = "running"
    """A process works on it."""
    WAITING = "waiting for a decision"
    """It continues when a person has decided on its proposal."""
    FINISHED = "finished"
    """All stages are done."""
    STOPPED = "stopped"
    """A person ended it, with `reject --stop` or in the form."""
    CUT_OFF = "cut off"
    """No process works on it, and stages are left."""
    UNREADABLE = "unreadable"
    """Its files are damaged, or of another version."""


class RunStatus(Frozen):
    """The state of a run, its rates and what it cost."""

    name: str
    """As commands take it."""
    directory: Path
    preset: str = ""
    engineer: str = ""
    """Engineer and context."""
    done: int = 0
    """Number of complete stages."""
    stages: int = 0
    state: RunState
    reason: str = ""
    """Why it is unreadable."""
    valid: Rate | None = None
    """Valid rate of the final policy on the validation set; None before the first evaluation."""
    made: Made = Made()
    """Time and tokens of its complete stages."""
    working: str = ""
    """The process that works on it; empty if none does."""
    commands: tuple[str, ...] = ()
    """What a person can do now; empty if nothing."""
    last: str = ""
    """The last line of its log."""
    report: Path | None = None
    changed: datetime
    """When it was last worked on."""


def resume_command(directory: Path) -> str:
    """Return the command that continues a run or its comparison, or makes one anew outside of the runs."""
    name = run_name(directory)
    if above := Run(directory=directory).comparison:
        return shlex.join(["envwright", "compare", run_name(above)])
    return shlex.join(["envwright", "run", f"{name}/{CURRICULUM.name}" if Path(name).is_absolute() else name])


def run_directories(folder: Path) -> Iterator[Path]:
    """Yield the directories of runs in a folder and in the comparisons there, sorted."""
    files = [*folder.glob(f"*/{CURRICULUM.name}"), *folder.glob(f"*/*/{CURRICULUM.name}")]
    for path in sorted(file.parent for file in files):
        if not any(part.startswith((".", *RESERVED)) for part in path.relative_to(folder).parts):
            yield path


def run_status(directory: Path) -> RunStatus:
    """Return the state of a run, also if its files cannot be read."""
    try:
        return read_status(directory)
    except (EnvwrightError, OSError) as error:
        return RunStatus(**_place(directory), state=RunState.UNREADABLE, reason=str(error))


def read_status(directory: Path) -> RunStatus:
    """Return the state of a run; RunDirectoryError if there is none, or it cannot be read."""
    run = Run(directory=directory)
    results = run.read(RESULTS) if run.has(RESULTS) else None
    breakdown = run.read(BREAKDOWN, BASE_POLICY) if run.has(BREAKDOWN, BASE_POLICY) else None
    if results:
        breakdown = results.breakdowns[results.final_stage + 1]
    done, working, place = len(results.stages) if results else 0, holder(directory), _place(directory)
    state, commands = RunState.RUNNING if working else _state(run, done), []
    if state is RunState.WAITING:
        commands = [f"envwright approve {place['name']}", f"envwright reject {place['name']}"]
    if state in {RunState.WAITING, RunState.CUT_OFF}:
        commands.append(resume_command(directory))
    return RunStatus(
        **place,
        preset=run.preset.name,
        engineer=engineer_label(run.preset.engineer.name, run.preset.engineer.context),
        done=done,
        stages=run.preset.stages,
        state=state,
        valid=breakdown and breakdown.overall.valid_rate,
        made=results.made if results else Made(),
        working=working,
        commands=tuple(commands),
        last="".join(new_lines(run, 0)[0][-1:]),
        report=run.path(REPORT) if run.has(REPORT) else None,
    )


def _state(run: Run, done: int) -> RunState:
    """Return the state of a run that no process works on."""
    decision = run.decision(done - 1) if done else None
    if decision and decision.decision == "stop":
        return RunState.STOPPED
    if done == run.preset.stages:
        return RunState.FINISHED
    return RunState.WAITING if done and must_ask(run, done - 1) else RunState.CUT_OFF


def _place(directory: Path) -> dict[str, Any]:
    """Return name and path of a run, and when it was last worked on."""
    run = Run(directory=directory)
    paths = [path for path in (run.path(CURRICULUM), run.log(NAME)) if path.exists()]
    changed = datetime.fromtimestamp(max((path.stat().st_mtime for path in paths), default=0), UTC)
    return {"name": run_name(directory), "directory": directory.resolve(), "changed": changed}
