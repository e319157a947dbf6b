"""Copies of run directories under an fsspec URL, so that a run continues on another machine.

`<remote>/<run>/` has the layout of the run directory. A part (validation set, evaluation of the base policy,
stage) is complete there when its marker is, a step record or manifest with the digests of its files. The
marker is removed before the files change and sent last."""

import logging
import shutil
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
from pydantic import BaseModel, ValidationError

from envgen.errors import ConfigError, excerpt, install
from envgen.files import atomic_path, file_digest, is_unused, move_directory
from infra.config.settings import without_password
from infra.runs.files import CURRICULUM, DECISION, MANIFEST, REPORT, RESULTS, VALIDATION, WORK
from infra.runs.steps import RECORDS

_MARKERS = {"": f"{RECORDS}/validation.json", "start": f"{RECORDS}/start.json"}
_LATER = (DECISION.name, "mlflow.json")
"""Files of a part that are written after its marker."""
_PUBLISHED = [RESULTS.name, REPORT.name, "mlflow.json"]
_MAX_DOCUMENT = 16_000_000
_log = logging.getLogger("envwright.remote")


class RemoteError(Exception):
    """A copy that cannot be used: of another run, incomplete or damaged."""


class _Document(BaseModel):
    """What counts of a curriculum, manifest, step record or any other JSON document."""

    preset_digest: str = ""
    files: dict[str, str] = {}
    outputs: dict[str, str] = {}

    @property
    def digests(self) -> dict[str, str]:
        """Return the digests of a manifest or step record."""
        return self.files | self.outputs


class _Remote:
    def __init__(self, url: str, run: str) -> None:
        self.fs, root = _filesystem(url)
        self.root = f"{self.fs._strip_protocol(root).rstrip('/')}/{run}"
        self.name = f"{without_password(url).rstrip('/')}/{run}"

    def read(self, name: str) -> bytes:
        """Return a small document; empty if it is missing."""
        try:
            info = self.fs.info(f"{self.root}/{name}")
            if info["type"] != "file" or info["size"] > _MAX_DOCUMENT:
                raise RemoteError(f"{name} is no file of at most {_MAX_DOCUMENT:,} bytes")
            return self.fs.cat_file(f"{self.root}/{name}")
        except FileNotFoundError:
            return b""

    def send(self, source: Path, name: str) -> int:
        """Send a file unless it is small and there already; return the number of files sent."""
        path, small = f"{self.root}/{name}", PurePosixPath(name).suffix in {".json", ".html"}
        if small and self.read(name) == source.read_bytes():
            return 0
        self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self.fs.put_file(str(source), path)
        return 1

    def fetch(self, part: str, marker: str, target: Path) -> None:
        """Download a part and check its digests; RemoteError names the file that is missing or damaged."""
        base = f"{self.root}/{part}".rstrip("/")
        digests = _parsed(self.read(f"{part}/{marker}".lstrip("/")), marker).digests
        names = [VALIDATION.name, marker]
        if part:
            names = [path.removeprefix(f"{base}/") for path in self.fs.find(base)]
        for name in names:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or str(path) != name or not name.isprintable():
                raise RemoteError(f"{excerpt(name)} is no name of a file of a run")
            if self.fs.info(f"{base}/{name}")["type"] != "file":
                raise RemoteError(f"{name} is no file")
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            self.fs.get_file(f"{base}/{name}", str(target / name))
        present = {
            str(path) for name in names for path in (PurePosixPath(name), *PurePosixPath(name).parents)
        }
        for name, digest in digests.items():
            if name not in present or file_digest(target / name) != digest:
                raise RemoteError(f"{excerpt(name)} is missing or does not match its digest in {marker}")


def push(directory: Path, remote: str) -> int:
    """Copy the finished parts of a run to a remote; return how many files were sent. RemoteError if another
    run of this name is there."""
    there = _Remote(remote, directory.name)
    _check_same_run(there, directory)
    sent = there.send(directory / CURRICULUM.name, CURRICULUM.name)
    stages = {path.parent.name: MANIFEST.name for path in sorted(directory.glob(f"stage-*/{MANIFEST.name}"))}
    for part, marker in (_MARKERS | stages).items():
        if (directory / part / marker).exists():
            sent += _push_part(there, directory / part, part, marker)
    later = [
        path for part in ("start", *stages) for name in _LATER if (path := directory / part / name).exists()
    ]
    documents = [*directory.glob("[!.]*.json"), *directory.glob("[!.]*.html")]
    return sent + sum(there.send(path, str(path.relative_to(directory))) for path in (*later, *documents))


def _push_part(there: _Remote, folder: Path, part: str, marker: str) -> int:
    mark = f"{part}/{marker}".lstrip("/")
    if there.read(mark) == (folder / marker).read_bytes():
        return 0
    for path, deep in ((f"{there.root}/{mark}", False), (f"{there.root}/{part}", True)):
        if part and there.fs.exists(path):
            there.fs.rm(path, recursive=deep)
    files = folder.rglob("*") if part else [folder / VALIDATION.name]
    names = [path.relative_to(folder) for path in files if path.is_file() and path != folder / marker]
    wanted = [name for name in names if WORK not in name.parts and name.suffix not in {".lock", ".partial"}]
    return sum(there.send(folder / name, f"{part}/{name}".lstrip("/")) for name in (*wanted, marker))


def pull(remote: str, directory: Path) -> list[str]:
    """Fetch the parts that a run directory lacks and a remote has; return their names.

    A damaged part stays there with a warning. A folder that is no run is left alone."""
    if not (directory / CURRICULUM.name).exists() and not is_unused(directory):
        return []
    there = _Remote(remote, directory.name)
    if not _check_same_run(there, directory):
        return []
    _fetch_documents(there, directory, [CURRICULUM.name])
    folders = [PurePosixPath(path).name for path in there.fs.ls(there.root, detail=False)]
    stages = {name: MANIFEST.name for name in sorted(folders) if PurePosixPath(name).match("stage-*")}
    fetched, folder = [], directory.parent / f".{directory.name}.fetched"
    for part, marker in (_MARKERS | stages).items():
        if (directory / part / marker).exists():
            if part in stages and there.read(f"{part}/{marker}") == (directory / part / marker).read_bytes():
                _fetch_documents(there, directory, [f"{part}/{DECISION.name}"])
            continue
        shutil.rmtree(folder, ignore_errors=True)
        try:
            there.fetch(part, marker, folder)
            if part:
                move_directory(folder, directory / part)
            else:
                shutil.copytree(folder, directory, dirs_exist_ok=True)
            fetched.append(part or "validation")
        except (RemoteError, OSError) as error:
            text = "%s/%s is ignored: %s; the run makes it anew and sends it again"
            _log.warning(text, there.name, part or "validation", without_password(error))
    shutil.rmtree(folder, ignore_errors=True)
    _fetch_documents(there, directory, _PUBLISHED, anew=bool(stages.keys() & fetched))
    return fetched


def _fetch_documents(there: _Remote, directory: Path, names: list[str], anew: bool = False) -> None:
    for name in names:
        if (anew or not (directory / name).exists()) and (content := there.read(name)):
            if name.endswith(".json"):
                _parsed(content, name)
            with atomic_path(directory / name) as path:
                path.write_bytes(content)


def _check_same_run(there: _Remote, directory: Path) -> bool:
    """Return whether a run of this name is there; RemoteError if it is a run of another preset."""
    theirs, ours = there.read(CURRICULUM.name), directory / CURRICULUM.name
    both = [ours.read_bytes(), theirs] if theirs and ours.exists() else [theirs] if theirs else []
    digests = {_parsed(content, CURRICULUM.name).preset_digest for content in both}
    if len(digests) > 1:
        raise RemoteError(
            f"{there.name} is a run of another preset; give this run its own --name, or set another"
            " ENVWRIGHT_REMOTE"
        )
    return bool(theirs)


def _parsed(content: bytes, name: str) -> _Document:
    try:
        return _Document.model_validate_json(content)
    except ValidationError:
        problem = "is damaged; delete it there" if content else "is missing, so that the copy is not complete"
        raise RemoteError(f"{name} {problem}") from None


def _filesystem(url: str) -> tuple[Any, str]:
    """Return the file system of a URL and the path in it; ConfigError if fsspec cannot open it."""
    protocol, name = url.partition("://")[0], without_password(url)
    try:
        return fsspec.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        s3 = protocol in {"s3", "s3a"}
        remedy = install("s3") if s3 else f"install the fsspec package for {protocol}"
        problem = f"needs a package that is not installed ({error}); {remedy}"
    except ValueError as error:
        reason = without_password(error)
        problem = f"is no URL that fsspec knows ({reason}); give one as s3://bucket/prefix or file:///folder"
    raise ConfigError(f"ENVWRIGHT_REMOTE: {name!r} {problem}")
