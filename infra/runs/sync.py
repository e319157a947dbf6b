"""Copies of run directories under an fsspec URL, so that a run continues on another machine.

`<remote>/<run>/` has the layout of the run directory. A part (validation set, evaluation of the base policy,
stage) is complete there when its marker is, a step record or manifest: it is removed before the files change
and sent last. What was fetched is verified by the steps of the run, as files of this machine are."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec

from envgen.errors import ConfigError, install
from envgen.files import atomic_path, is_unused, move_directory
from infra.config.settings import without_password
from infra.runs.files import CURRICULUM, DECISION, MANIFEST, REPORT, RESULTS, VALIDATION, WORK
from infra.runs.steps import RECORDS

_MARKERS = {"": f"{RECORDS}/validation.json", "start": f"{RECORDS}/start.json"}
_LATER = (DECISION.name, "mlflow.json")
"""Files of a part that are written after its marker."""


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
        """Return a document; empty if it is missing."""
        try:
            return self.fs.cat_file(f"{self.root}/{name}")
        except FileNotFoundError:
            return b""

    def send(self, directory: Path, name: str) -> int:
        """Send a file of a run, a document only if another one is there; return the number of files sent."""
        path, document = f"{self.root}/{name}", name.endswith((".json", ".html"))
        if document and self.read(name) == (directory / name).read_bytes():
            return 0
        self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self.fs.put_file(str(directory / name), path)
        return 1

    def fetch(self, names: list[str], target: Path) -> None:
        """Download files that are there; each appears under its name when it is complete."""
        for name in names:
            if self.fs.isfile(f"{self.root}/{name}"):
                with atomic_path(target / name) as path:
                    self.fs.get_file(f"{self.root}/{name}", str(path))


def push(directory: Path, remote: str) -> int:
    """Copy the finished parts of a run to a remote; return how many files were sent. RemoteError if another
    run of this name is there."""
    there = _open(remote, directory.name)
    _check_same_run(there, directory)
    sent = there.send(directory, CURRICULUM.name)
    stages = {path.parent.name: MANIFEST.name for path in sorted(directory.glob(f"stage-*/{MANIFEST.name}"))}
    for part, marker in (_MARKERS | stages).items():
        if (directory / part / marker).exists():
            sent += _push_part(there, directory, part, marker)
    documents = [directory / part / name for part in ("start", *stages) for name in _LATER]
    documents += [*directory.glob("[!.]*.json"), *directory.glob("[!.]*.html")]
    names = [str(path.relative_to(directory)) for path in documents if path.exists()]
    return sent + sum(there.send(directory, name) for name in names)


def _push_part(there: _Remote, directory: Path, part: str, marker: str) -> int:
    mark = f"{part}/{marker}".lstrip("/")
    if there.read(mark) == (directory / mark).read_bytes():
        return 0
    for name in filter(None, (mark, part)):
        if there.fs.exists(f"{there.root}/{name}"):
            there.fs.rm(f"{there.root}/{name}", recursive=True)
    paths = (directory / part).rglob("*") if part else [directory / VALIDATION.name]
    names = [path.relative_to(directory) for path in paths if path.is_file()]
    names = [name for name in names if WORK not in name.parts and name.suffix not in {".lock", ".partial"}]
    return sum(there.send(directory, name) for name in (*(str(n) for n in names if str(n) != mark), mark))


def pull(remote: str, directory: Path) -> list[str]:
    """Fetch the parts that a run directory lacks and a remote has; return their names.

    A folder that is no run is left alone."""
    if not (directory / CURRICULUM.name).exists() and not is_unused(directory):
        return []
    there = _open(remote, directory.name)
    if not _check_same_run(there, directory):
        return []
    if not (directory / CURRICULUM.name).exists():
        there.fetch([CURRICULUM.name], directory)
    folders = [PurePosixPath(path).name for path in there.fs.ls(there.root, detail=False)]
    stages = {name: MANIFEST.name for name in sorted(folders) if name.startswith("stage-")}
    fetched, folder = [], directory.parent / f".{directory.name}.fetched"
    for part, marker in (_MARKERS | stages).items():
        mark, decision = f"{part}/{marker}".lstrip("/"), f"{part}/{DECISION.name}"
        if (directory / mark).exists():
            same = there.read(mark) == (directory / mark).read_bytes()
            if part and same and not (directory / decision).exists():
                there.fetch([decision], directory)
            continue
        if not there.read(mark):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        paths = [
            PurePosixPath(path).relative_to(there.root) for path in there.fs.find(f"{there.root}/{part}")
        ]
        inside = [str(path) for path in paths if ".." not in path.parts]
        there.fetch(inside if part else [VALIDATION.name, mark], folder)
        if part:
            move_directory(folder / part, directory / part)
        else:
            shutil.copytree(folder, directory, dirs_exist_ok=True)
        fetched.append(part or "validation")
    shutil.rmtree(folder, ignore_errors=True)
    published = [RESULTS.name, REPORT.name, "mlflow.json"]
    anew = bool(stages.keys() & fetched)
    there.fetch([name for name in published if anew or not (directory / name).exists()], directory)
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
