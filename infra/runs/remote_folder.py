"""The folder of one run at a remote: what fsspec reaches, and the small documents in it."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TypeVar

import fsspec
from fsspec import AbstractFileSystem
from pydantic import BaseModel, TypeAdapter, ValidationError

from envgen.errors import ConfigError, install, shown
from infra.config.settings import without_password

_EXTRAS = {"s3": "s3", "s3a": "s3"}
"""Protocol -> extra of this package that brings what it needs."""
STAGES = "stage-*"
MAX_DOCUMENT = 16_000_000
"""Bytes of an index or manifest at most."""
MAX_PATH, MAX_PART = 1_000, 200
"""Bytes of a name, and of one of its parts, at most."""


class RemoteError(Exception):
    """A copy that cannot be used: another run's, or damaged."""


class _Claim(BaseModel):
    preset_digest: str


class _Manifest(BaseModel):
    files: dict[str, str]


_Document = TypeVar("_Document")
_Names = TypeVar("_Names", bound=Mapping[str, str])
DIGESTS, CLAIM, MANIFEST_FILES = TypeAdapter(dict[str, str]), TypeAdapter(_Claim), TypeAdapter(_Manifest)


class Remote:
    """The folder of one run at a remote."""

    def __init__(self, url: str, run: str) -> None:
        self.fs, root = _filesystem(url)
        self.root = f"{root.rstrip('/')}/{run}"
        self.name = f"{without_password(url).rstrip('/')}/{run}"

    def part(self, name: str) -> str:
        """The folder of a stage; of the run itself for ''."""
        return f"{self.root}/{name}" if name else self.root

    def read(self, path: str, kind: TypeAdapter[_Document]) -> _Document | None:
        """A small document; None if it is not there, RemoteError if it is damaged."""
        try:
            if self._size(path) > MAX_DOCUMENT:
                raise RemoteError(f"{PurePosixPath(path).name} has more than {MAX_DOCUMENT:,} bytes")
            return kind.validate_json(self.fs.cat_file(path))
        except FileNotFoundError:
            return None
        except ValidationError:
            raise RemoteError(f"{PurePosixPath(path).name} is damaged") from None

    def fetch(self, path: str, target: Path) -> None:
        """Download a file; RemoteError if it is not there, or no file, as a link to a device."""
        try:
            self._size(path)
            self.fs.get_file(path, str(target))
        except FileNotFoundError:
            raise RemoteError(f"{PurePosixPath(path).name} is missing") from None

    def _size(self, path: str) -> int:
        found = self.fs.info(path)
        if found["type"] != "file":
            raise RemoteError(f"{PurePosixPath(path).name} is no file")
        return int(found["size"])

    def stages(self) -> list[str]:
        """Names of the stage folders, complete or not."""
        with suppress(FileNotFoundError):
            names = (PurePosixPath(entry).name for entry in self.fs.ls(self.root, detail=False))
            return sorted(name for name in names if PurePosixPath(name).match(STAGES))
        return []


def check_names(names: _Names, source: str) -> _Names:
    """The same mapping from names of files to anything, if each can be a file in a folder and no name is a
    folder of another; RemoteError says which is not, and that `source` names it."""
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise RemoteError(f"{source} names {shown(name)}, which lies outside")
        if str(path) != name or not path.parts or not name.isprintable():
            raise RemoteError(f"{source} names {shown(name)}, which is no name of a file")
        if len(name.encode()) > MAX_PATH or max(len(part.encode()) for part in path.parts) > MAX_PART:
            raise RemoteError(
                f"{source} names {shown(name)}, which is longer than {MAX_PATH} bytes, or a part of it"
                f" than {MAX_PART}"
            )
        if folder := next((str(one) for one in path.parents if str(one) in names), None):
            raise RemoteError(f"{source} names {shown(folder)} as a file and as a folder")
    return names


def _filesystem(url: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a URL and the path in it; ConfigError if fsspec does not know it or lacks a
    package."""
    protocol, shown = url.partition("://")[0], without_password(url)
    extra = _EXTRAS.get(protocol)
    try:
        fs, root = fsspec.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        remedy = install(extra) if extra else f"install the fsspec package for {protocol}"
        raise ConfigError(
            f"ENVWRIGHT_REMOTE: {shown!r} needs a package that is not installed ({error}); {remedy}"
        ) from None
    except ValueError as error:
        raise ConfigError(
            f"ENVWRIGHT_REMOTE: {shown!r} is no URL that fsspec knows ({without_password(error)}); give one"
            " as s3://bucket/prefix or file:///folder"
        ) from None
    return fs, root
