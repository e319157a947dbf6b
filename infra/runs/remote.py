"""Copies of run directories under an fsspec URL, so that a run can go on on another machine.

`<remote>/<run>/` mirrors the run directory. Beside the files of the run, and of each finished stage, lies an
index of their digests. A stage's manifest is removed before its files change and sent last: with it, and only
with it, the stage is complete there. Nothing is trusted that does not match its digests."""

import json
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from fsspec import AbstractFileSystem

from envgen.files import file_digest, is_unused, move_directory
from infra.runs.remote_folder import (
    CLAIM,
    DIGESTS,
    MANIFEST_FILES,
    STAGES,
    Remote,
    RemoteError,
    check_names,
)
from infra.runs.run import Run
from infra.runs.stage import Stage

MODEL_FILE, MANIFEST, DECISION = Run.curriculum.name, Stage.manifest.name, Stage.decided.name
PUBLISHED = (Run.results.name, Run.report.name)
INDEX = ".digests.json"


log = logging.getLogger("envwright.remote")


def push(directory: Path, remote: str) -> int:
    """Copy the finished stages and the files of a run to a remote; returns how many files were sent.

    Files that are there already, by digest and size, are not sent again. RemoteError if another run of this
    name is there."""
    there = Remote(remote, directory.name)
    _same_run(there, directory)
    sent = _push_part(there, directory, "", [*directory.glob(".steps/*"), *directory.glob("start/**/*")])
    for stage in sorted(directory.glob(STAGES)):
        if (stage / MANIFEST).is_file():
            sent += _push_stage(there, stage)
    return sent


def pull(remote: str, directory: Path) -> list[str]:
    """Fetch what a run directory lacks and a remote has: the files of the run and complete stages; returns
    the names of what came.

    What does not match its digests is left there with a warning. A folder that is no run is left alone.
    """
    if not (directory / MODEL_FILE).exists() and not is_unused(directory):
        return []
    there = Remote(remote, directory.name)
    _same_run(there, directory)
    found = _pull_files(there, directory)
    if not (directory / MODEL_FILE).exists():
        return found
    stages = []
    for name in there.stages():
        try:
            check_names({name: ""}, there.name)
            if _pull_stage(there, directory, name):
                stages.append(name)
        except RemoteError as error:
            log.warning("%s/%s is ignored: %s", there.name, name, error)
    # What is here was published before those stages were there.
    again = _pull_files(there, directory, PUBLISHED) if stages else []
    return [*found, *stages, *(name for name in again if name not in found)]


def _same_run(there: Remote, directory: Path) -> None:
    """RemoteError if the remote holds a run of another preset under this name."""
    ours, theirs = directory / MODEL_FILE, there.read(f"{there.root}/{MODEL_FILE}", CLAIM)
    if theirs and ours.exists() and CLAIM.validate_json(ours.read_bytes()) != theirs:
        raise RemoteError(
            f"{there.name} is a run of another preset; give this run its own --name, or set another"
            " ENVWRIGHT_REMOTE"
        )


def _push_stage(there: Remote, stage: Path) -> int:
    """Send a finished stage. One that was redone since it was sent is sent anew, whatever its index says."""
    part, ours = there.part(stage.name), (stage / MANIFEST).read_bytes()
    try:
        if there.fs.cat_file(f"{part}/{MANIFEST}") == ours:
            return _push_decision(there, stage)
        there.fs.rm_file(f"{part}/{MANIFEST}")
        there.fs.rm_file(f"{part}/{INDEX}")
    except FileNotFoundError:
        pass
    sent = _push_part(there, stage, stage.name, stage.rglob("*"))
    there.fs.pipe_file(f"{part}/{MANIFEST}", ours)
    return sent + 1


def _push_decision(there: Remote, stage: Path) -> int:
    """Send a person's decision: it is made after the stage was sent."""
    part, decision = there.part(stage.name), stage / DECISION
    index = _read_index(there, stage.name)
    if not decision.exists() or index.get(DECISION) == file_digest(decision):
        return 0
    there.fs.put_file(str(decision), f"{part}/{DECISION}")
    _write_index(there.fs, part, {**index, DECISION: file_digest(decision)})
    return 1


def _push_part(there: Remote, directory: Path, name: str, deeper: Iterable[Path]) -> int:
    """Send changed files of a part; its index names a file only while the file is complete there."""
    part = there.part(name)
    files = {
        str(path.relative_to(directory)): path
        for path in [*directory.iterdir(), *deeper]
        if _wanted(path, directory)
    }
    digests = {relative: file_digest(path) for relative, path in files.items()}
    try:
        known = there.read(f"{part}/{INDEX}", DIGESTS)
    except RemoteError:
        known = None
    if known is None:
        there.fs.makedirs(part, exist_ok=True)
        known = {}
    sizes = _sizes(there.fs, part)
    kept = {
        relative
        for relative, sha in digests.items()
        if known.get(relative) == sha and sizes.get(relative) == files[relative].stat().st_size
    }
    changed = sorted(digests.keys() - kept)
    if known == digests and not changed:
        return 0
    _write_index(there.fs, part, {relative: digests[relative] for relative in kept})
    for relative in changed:
        there.fs.makedirs(f"{part}/{PurePosixPath(relative).parent}", exist_ok=True)
        there.fs.put_file(str(files[relative]), f"{part}/{relative}")
    for gone in known.keys() - digests.keys():
        with suppress(FileNotFoundError):
            there.fs.rm_file(f"{part}/{gone}")
    _write_index(there.fs, part, digests)
    return len(changed)


def _wanted(path: Path, directory: Path) -> bool:
    """Whether a file is part of what a copy keeps: no locks, no markers, no half-written files, no work in
    progress."""
    parts = path.relative_to(directory).parts
    if (
        not path.is_file()
        or "work" in parts
        or path.suffix in {".lock", ".partial"}
        or path == directory / MANIFEST
    ):
        return False
    return all(part == ".steps" or not part.startswith(".") for part in parts)


def _pull_files(there: Remote, directory: Path, again: Collection[str] = ()) -> list[str]:
    """Fetch the files of the run itself that are not here, `curriculum.json` first: it makes the folder a
    run. Those of `again` are fetched if they differ, too."""
    found = []
    for relative, sha in sorted(_read_index(there, "").items(), key=lambda item: item[0] != MODEL_FILE):
        here = directory / relative
        if here.exists() and (relative not in again or file_digest(here) == sha):
            continue
        if relative != MODEL_FILE and not (directory / MODEL_FILE).exists():
            break
        try:
            _fetch(
                there,
                "",
                {relative: sha},
                _beside(directory),
                lambda folder, name=relative: _move(folder / name, directory / name),
            )
            found.append(relative)
        except RemoteError as error:
            log.warning("%s: %s; it is not used", there.name, error)
    return found


def _pull_stage(there: Remote, directory: Path, name: str) -> bool:
    """Fetch a stage that is complete there and not here; of one that is here, a decision made elsewhere."""
    if (directory / name / MANIFEST).exists():
        _pull_decision(there, directory / name)
        return False
    manifest = there.read(f"{there.part(name)}/{MANIFEST}", MANIFEST_FILES)
    if manifest is None:
        raise RemoteError(f"{MANIFEST} is missing, so the stage is not complete there")
    outputs = check_names(manifest.files, MANIFEST)

    def place(fetched: Path) -> None:
        for output, sha in outputs.items():
            if not (fetched / output).exists() or file_digest(fetched / output) != sha:
                raise RemoteError(f"{output} does not match {MANIFEST}")
        there.fetch(f"{there.part(name)}/{MANIFEST}", fetched / MANIFEST)
        move_directory(fetched, directory / name)

    _fetch(there, name, _read_index(there, name), _beside(directory / name), place)
    return True


def _pull_decision(there: Remote, stage: Path) -> None:
    """Fetch a person's decision on a stage that is the same here and there; one that is here stays."""
    manifest, ours = f"{there.part(stage.name)}/{MANIFEST}", (stage / MANIFEST).read_bytes()
    sha = _read_index(there, stage.name).get(DECISION)
    if sha is None or (stage / DECISION).exists():
        return
    try:
        if there.fs.cat_file(manifest) != ours:
            return
    except FileNotFoundError:  # it is being sent
        return
    _fetch(
        there,
        stage.name,
        {DECISION: sha},
        _beside(stage),
        lambda folder: _move(folder / DECISION, stage / DECISION),
    )


def _fetch(
    there: Remote, name: str, digests: dict[str, str], target: Path, place: Callable[[Path], None]
) -> None:
    """Download files into a folder, check them, then `place` the folder; nothing is left of it if anything is
    wrong."""
    shutil.rmtree(target, ignore_errors=True)
    try:
        target.mkdir(parents=True)
        for relative, sha in digests.items():
            (target / relative).parent.mkdir(parents=True, exist_ok=True)
            there.fetch(f"{there.part(name)}/{relative}", target / relative)
            if file_digest(target / relative) != sha:
                raise RemoteError(f"{relative} does not match its digest")
        place(target)
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _beside(path: Path) -> Path:
    """Where a download waits until it is checked: never a file of the run, whatever interrupts it."""
    run = path.parent if path.match(STAGES) else path
    return run.parent / f".{run.name}.fetched"


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)


def _read_index(there: Remote, name: str) -> dict[str, str]:
    """The digests of a part's files; RemoteError for what would be written outside of the run directory."""
    return check_names(there.read(f"{there.part(name)}/{INDEX}", DIGESTS) or {}, INDEX)


def _write_index(fs: AbstractFileSystem, part: str, digests: dict[str, str]) -> None:
    fs.pipe_file(f"{part}/{INDEX}", json.dumps(digests, indent=1, sort_keys=True).encode())


def _sizes(fs: AbstractFileSystem, part: str) -> dict[str, int]:
    """Relative path -> size of the files of a part."""
    try:
        found = dict(fs.find(part, detail=True))
    except FileNotFoundError:
        return {}
    return {
        str(PurePosixPath(path).relative_to(str(fs._strip_protocol(part)))): int(entry["size"])
        for path, entry in found.items()
    }
