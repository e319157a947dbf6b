"""What of runs can be removed, what that costs, and its removal."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from envgen.errors import RunDirectoryError
from envgen.files import left_over
from envgen.frozen import Frozen
from infra.analysis.run_status import RunState, found_runs, run_name, run_status
from infra.analysis.spec import SPEC_FILE
from infra.runs.lease import exclusive, holder
from infra.runs.remote_folder import STAGES
from infra.runs.run import Run
from infra.runs.stage import Stage

_NOTHING = "nothing"


class Removable(Frozen):
    """Something that can be removed."""

    run: str
    directory: Path
    """Of the run, or of the comparison."""
    path: Path
    what: str
    costs: str
    """What has to be done again, or is lost."""
    size: int
    """Bytes."""


def removable(directories: Iterable[Path], *, named: bool, whole: bool) -> tuple[list[Removable], list[str]]:
    """What can be removed of runs, and a line for each that is left alone because a process works on it.

    Of runs that nobody `named`, nothing that one needs to go on. `whole` runs, or comparisons, go with all
    that is in them. RunDirectoryError for what is neither."""
    found, held = [], []
    for directory in directories:
        if not any((directory / name).exists() for name in (Run.curriculum.name, SPEC_FILE)):
            raise RunDirectoryError(f"{directory}: no run or comparison there; 'envwright runs' lists them")
        above = [one for one in [directory.parent] if (one / SPEC_FILE).exists()]
        parts = [directory, *found_runs(directory)]
        if worked := [lease for part in (*above, *parts) if (lease := holder(part))]:
            held.append(f"{run_name(directory)}: left alone, {worked[0]} works on it")
        elif whole:
            costs = "its results, checkpoints and data; what MLflow recorded of it stays"
            found.append(_item(directory, directory, "all of it", costs))
        else:
            runs = [part for part in parts if Run(directory=part).has(Run.curriculum)]
            found += [item for run in runs for item in _spare(run, named)]
    return found, held


def remove(items: Iterable[Removable]) -> Iterator[str]:
    """Remove what was listed; a line for each that is left alone because a process has begun to work on
    it."""
    for item in items:
        try:
            with exclusive(item.directory):
                _remove(item.path)
        except RunDirectoryError as error:
            yield f"{item.run}: left alone: {error}"


def _spare(directory: Path, named: bool) -> Iterator[Removable]:
    """What of a run can go while the run stays."""
    for path in left_over(directory):
        yield _item(directory, path, "half-written file", _NOTHING)
    over = run_status(directory).state in {RunState.FINISHED, RunState.STOPPED}
    if not (over or named):
        return
    for stage in sorted(directory.glob(STAGES)):
        if (work := Stage(directory=stage).work).exists():
            costs = _NOTHING if over else f"{stage.name} is trained from its first step"
            yield _item(directory, work, f"work files of {stage.name}", costs)
    for path in sorted(directory.rglob("*.partial.jsonl")):
        if Stage(directory=path.parent).work not in path.parents:
            costs = _NOTHING if over else "these questions are asked again"
            yield _item(directory, path, f"answers of a step of {path.parent.name}", costs)
    for path in sorted(directory.glob("**/logs")):
        place = "the run" if path.parent == directory else path.parent.name
        yield _item(directory, path, f"logs of {place}", "what its processes said")


def _item(directory: Path, path: Path, what: str, costs: str) -> Removable:
    files = [one for one in (path, *path.rglob("*")) if one.is_file() and not one.is_symlink()]
    size = sum(one.stat().st_size for one in files)
    return Removable(
        run=run_name(directory), directory=directory, path=path, what=what, costs=costs, size=size
    )


def _remove(path: Path) -> None:
    """Remove a file or a folder; what makes a folder a run goes last, so that a removal that was cut off can
    be repeated."""
    if not path.is_dir() or path.is_symlink():
        return path.unlink(missing_ok=True)
    last = {Run.curriculum.name, SPEC_FILE}
    for part in sorted(path.iterdir(), key=lambda one: one.name in last):
        shutil.rmtree(part) if part.is_dir() and not part.is_symlink() else part.unlink(missing_ok=True)
    path.rmdir()
