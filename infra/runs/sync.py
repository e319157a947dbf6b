"""Copies of run directories under an fsspec URL, so that a run continues on another machine.

`<remote>/<run>/` has the layout of the run directory. A stage is complete there when its manifest is, which
is removed before files of the stage change and sent last. What was fetched is verified by the steps of the
run, as files of this machine are."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec

from envgen.errors import ConfigError, install
from envgen.files import atomic_path, is_unused, move_directory
from infra.config.settings import without_password
from infra.runs.files import CURRICULUM, DECISION, MANIFEST, REPORT, RESULTS, TEST, VALIDATION, WORK
from infra.runs.steps import RECORDS

_IDS = "mlflow.json"


class RemoteError(Exception):
    """A copy that cannot be used: of another run, or damaged."""


@dataclass(frozen=True)
class _Remote:
    """The folder of a run at a remote."""

    fs: Any
    root: str
    name: str
    """Its address without a password."""

    def read(self, name: str) -> bytes:
        """Return the content of a file; empty if it is missing."""
        try:
            return self.fs.cat_file(f"{self.root}/{name}")
        except FileNotFoundError:
            return b""

    def send(self, directory: Path, name: str) -> int:
        """Send a file of a run unless the same one is there; return the number of files sent."""
        if (content := self.read(name)) and content == (directory / name).read_bytes():
            return 0
        path = f"{self.root}/{name}"
        self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self.fs.put_file(str(directory / name), path)
        return 1

    def fetch(self, names: list[str], target: Path) -> None:
        """Download files; each appears under its name when it is complete."""
        for name in names:
            with atomic_path(target / name) as path:
                self.fs.get_file(f"{self.root}/{name}", str(path))


def push(directory: Path, remote: str) -> int:
    """Copy the complete stages of a run, and all that lies beside them, to a remote; return how many files
    were sent. RemoteError if another run of this name is there."""
    there = _open(remote, directory.name)
    _check_same_run(there, directory)
    records = [f"{RECORDS}/{step}.json" for step in ("validation", "test-set")]
    names = [CURRICULUM.name, VALIDATION.name, TEST.name, *records, *_files(directory, "start")]
    for path in sorted(directory.glob(f"stage-*/{MANIFEST.name}")):
        stage, manifest = path.parent.name, f"{path.parent.name}/{MANIFEST.name}"
        if there.read(manifest) == path.read_bytes():
            names += [f"{stage}/{name}" for name in (DECISION.name, _IDS)]
            continue
        for name in (manifest, stage):
            if there.fs.exists(f"{there.root}/{name}"):
                there.fs.rm(f"{there.root}/{name}", recursive=True)
        names += [*(name for name in _files(directory, stage) if name != manifest), manifest]
    names += [RESULTS.name, REPORT.name, _IDS]
    return sum(there.send(directory, name) for name in names if (directory / name).exists())


def _files(directory: Path, part: str) -> list[str]:
    """Return the files in a folder of a run, without locks and what is not finished."""
    paths = [path.relative_to(directory) for path in (directory / part).rglob("*") if path.is_file()]
    lasting = (path for path in paths if path.suffix not in {".lock", ".partial"} and WORK not in path.parts)
    return list(map(str, lasting))


def pull(remote: str, directory: Path) -> list[str]:
    """Fetch the stages and files that a run directory lacks and a remote has; return the names of the stages.

    A folder that is no run is left alone."""
    if not (directory / CURRICULUM.name).exists() and not is_unused(directory):
        return []
    there = _open(remote, directory.name)
    if not _check_same_run(there, directory):
        return []
    if not (directory / CURRICULUM.name).exists():
        there.fetch([CURRICULUM.name], directory)
    paths = [PurePosixPath(path).relative_to(there.root) for path in there.fs.find(there.root)]
    names = {str(path) for path in paths if ".." not in path.parts}
    wanted = {name for name in names if not name.startswith("stage-") and not (directory / name).exists()}
    fetched, folder = [], directory.parent / f".{directory.name}.fetched"
    for manifest in sorted(name for name in names if PurePosixPath(name).match(f"stage-*/{MANIFEST.name}")):
        stage = manifest.partition("/")[0]
        if not (directory / manifest).exists():
            shutil.rmtree(folder, ignore_errors=True)
            there.fetch([name for name in names if name.startswith(f"{stage}/")], folder)
            move_directory(folder / stage, directory / stage)
            fetched.append(stage)
        elif there.read(manifest) == (directory / manifest).read_bytes():
            decision = f"{stage}/{DECISION.name}"
            wanted |= names & {decision} if not (directory / decision).exists() else set()
    shutil.rmtree(folder, ignore_errors=True)
    published = {RESULTS.name, REPORT.name, _IDS}
    there.fetch(sorted(wanted | (names & published if fetched else set())), directory)
    return fetched


def _check_same_run(there: _Remote, directory: Path) -> bool:
    """Return whether a run of this name is there; RemoteError if it is a run of another preset."""
    content, here = there.read(CURRICULUM.name), directory / CURRICULUM.name
    if not content:
        return False
    try:
        digests = {json.loads(content)["preset_digest"]}
    except (KeyError, TypeError, ValueError):
        problem = f"{CURRICULUM.name} is damaged; delete it there"
        raise RemoteError(f"{there.name}/{problem}") from None
    if here.exists():
        digests.add(json.loads(here.read_bytes()).get("preset_digest"))
    if len(digests) > 1:
        raise RemoteError(
            f"{there.name} is a run of another preset; give this run its own --name, or set another"
            " ENVWRIGHT_REMOTE"
        )
    return True


def _open(url: str, run: str) -> _Remote:
    """Return the folder of a run under a URL; ConfigError if fsspec cannot open it."""
    protocol, name = url.partition("://")[0], without_password(url)
    try:
        fs, root = fsspec.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        package = install("s3") if protocol.startswith("s3") else f"install the fsspec package for {protocol}"
        problem = f"needs a package that is not installed ({error}); {package}"
    except ValueError as error:
        problem = f"is no URL that fsspec knows ({without_password(error)}); give one as s3://bucket/prefix"
    else:
        return _Remote(fs, f"{root.rstrip('/')}/{run}", f"{name.rstrip('/')}/{run}")
    raise ConfigError(f"ENVWRIGHT_REMOTE: {name!r} {problem}")
