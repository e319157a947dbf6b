"""Atomic writes, canonical JSON and digests. A file appears under its final name only when it is complete."""

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from envgen.errors import DataError, RunDirectoryError, excerpt

T = TypeVar("T")
_JSON: TypeAdapter[Any] = TypeAdapter(Any, config=ConfigDict(ser_json_inf_nan="constants"))

TEXT_LIMIT = 16_000_000
"""Characters read at most: of a whole text, or of one line of a file that is read line by line."""
_PARTIAL = ".partial"
# Of ASCII and Latin-1 but tabs and ends of lines, and what turns the direction of writing.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling of `path`: synced and renamed into place on success, removed on error.

    Where `path` is a link, the file that it leads to is written. DataError for what a file must not replace,
    as a device or a pipe.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        raise DataError(
            f"{path}: is a device or a pipe, which a file would replace; choose the path of a file"
        )
    if path.is_symlink():
        path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_PARTIAL}")
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def check_unused(path: Path, kind: str) -> None:
    """RunDirectoryError if a directory holds something, but not the file `path` that makes it a `kind`. What
    a killed process had not finished writing does not count."""
    if path.parent.exists() and any(entry.suffix != _PARTIAL for entry in path.parent.iterdir()):
        raise RunDirectoryError(
            f"{path.parent} exists and is no {kind} ({path.name} is missing); give the {kind} another --name,"
            " or move the directory away"
        )


def sweep(directory: Path, pattern: str = "**/*") -> None:
    """Remove what `atomic_path` left below a directory, by a pattern of names, when its process was killed.
    The process of such a file is one of this machine, so call it where no other machine writes."""
    import psutil

    for path in directory.glob(f"{pattern}{_PARTIAL}"):
        writer = re.fullmatch(r"\..*\.([0-9]+)", path.stem)
        if writer and not psutil.pid_exists(min(int(writer[1]), 2**31 - 1)):
            with suppress(OSError):
                path.unlink()


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """Write `text` to `path` atomically (UTF-8). A `private` file has mode 600 from the first byte on: only
    its owner reads it."""
    with atomic_path(path) as temporary:
        temporary.unlink(missing_ok=True)  # one that a killed process left may have another mode
        temporary.touch(0o600 if private else 0o666, exist_ok=False)
        temporary.write_text(text, encoding="utf-8")


def write_html(path: Path, page: str) -> None:
    """Write an HTML page atomically. Characters that steer whatever shows them become the replacement
    character: models wrote some of its texts."""
    write_text(path, _STEERING.sub("\ufffd", page))


def read_text(path: Path) -> str:
    """The text of a UTF-8 file; DataError if it is missing, no text, or longer than `TEXT_LIMIT`."""
    with _read(path) as file:
        text = file.read(TEXT_LIMIT + 1)
    if len(text) > TEXT_LIMIT:
        raise DataError(f"{path}: has more than {TEXT_LIMIT:,} characters; give a shorter file")
    return text


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value) of each line not blank; DataError names the first line that is no JSON."""
    with _read(path) as file:
        # Not splitlines(): it also splits at U+2028, which may stand inside a JSON string.
        for number, line in enumerate(iter(lambda: file.readline(TEXT_LIMIT + 1), ""), start=1):
            place = f"{path}: line {number}"
            if len(line) > TEXT_LIMIT:
                limit = f"has more than {TEXT_LIMIT:,} characters"
                raise DataError(f"{place}: {limit}; break the file into shorter lines")
            if not line.strip():
                continue
            try:
                value = json.loads(line, object_pairs_hook=unique_keys)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{place}: not JSON ({error}); expected a JSON object a line") from None
            yield number, value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; ValueError for a repeated key, of which json would keep the last."""
    value: dict[str, Any] = {}
    for name, part in pairs:
        if name in value:
            raise ValueError(f"the key {excerpt(name)} stands twice")
        value[name] = part
    return value


@contextmanager
def _read(path: Path) -> Iterator[TextIO]:
    try:
        with open(path, encoding="utf-8-sig") as file:  # programs of Windows begin a file with a BOM
            yield file
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as text: {error}") from None


def write_json(path: Path, value: Any) -> None:
    """Write a JSON document atomically, indented for people."""
    write_text(path, json.dumps(_JSON.dump_python(value, mode="json"), indent=1, ensure_ascii=False) + "\n")


def read_model(path: Path, model: type[T], missing: str, remedy: str) -> T:
    """Return the model, or other type that pydantic knows, stored in a JSON file.

    RunDirectoryError says `missing` where there is no file, and what is wrong and `remedy` where it does not
    fit the model.
    """
    try:
        return TypeAdapter(model).validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise RunDirectoryError(missing) from None
    except ValidationError as problem:
        reason = problem.errors()[0]["msg"]
        raise RunDirectoryError(f"{path}: damaged, or made by another version: {reason}; {remedy}") from None


def move_directory(source: Path, target: Path) -> None:
    """Put a finished directory under its final name: every file is synced first, then one rename."""
    for file in source.rglob("*"):
        if file.is_file():
            sync(file)
    if target.exists():
        shutil.rmtree(target)
    os.replace(source, target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Make the bytes of a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def canonical_json(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, no NaN. Pydantic models are dumped first."""
    compact = {"sort_keys": True, "separators": (",", ":")}
    return json.dumps(_JSON.dump_python(value, mode="json"), allow_nan=False, ensure_ascii=False, **compact)


def digest(value: Any) -> str:
    """SHA-256 (64 hex digits) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file, or of a directory: its files' relative paths and digests in sorted order."""
    if path.is_dir():
        files = (file for file in sorted(path.rglob("*")) if file.is_file())
        return digest({str(file.relative_to(path)): file_digest(file) for file in files})
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
