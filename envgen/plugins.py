"""What packages add by entry points: our own by name first, then those of installed packages."""

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any

from envgen.errors import ConfigError


@dataclass(frozen=True)
class Plugins:
    """Objects of one kind that are found by name."""

    group: str
    """Of the entry points."""
    noun: str
    """What one is called: `family`."""
    field: str
    """Of a preset, that names one."""
    kind: str
    """`module:Class` of the objects."""
    ours: Mapping[str, str]
    """Name -> `module:OBJECT` of our own."""

    def known(self) -> list[str]:
        """Every name that `find` knows, our own first."""
        return [
            *self.ours,
            *sorted({entry.name for entry in _installed(self.group)} - set(self.ours)),
        ]

    def find(self, name: str) -> Any:
        """The object of a name; ConfigError if it is unknown, given twice or cannot be loaded."""
        found = [EntryPoint(name, self.ours[name], self.group)] if name in self.ours else []
        # A package that is found twice on the path is one, two values under one name are two.
        found += [
            entry
            for entry in _installed(self.group).select(name=name)
            if entry.value not in {other.value for other in found}
        ]
        if not found:
            near = difflib.get_close_matches(name, self.known(), n=3)
            hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
            known = ", ".join(self.known())
            raise ConfigError(f"{self.field}: there is no {self.noun} {name!r}; {hint}known are {known}")
        values = dict.fromkeys(entry.value for entry in found)
        if len(values) > 1:
            raise ConfigError(
                f"{self.field}: {name!r} stands for two things, {' and '.join(values)}; uninstall one of the "
                "packages"
            )
        return self._load(found[0])

    def _load(self, entry: EntryPoint) -> Any:
        try:
            found = entry.load()
        except Exception as error:  # whatever a package does when it is imported
            where = f"{self.field}: {entry.name!r} cannot be loaded from {entry.value}"
            raise ConfigError(f"{where}: {type(error).__name__}: {error}") from None
        if not isinstance(found, EntryPoint("", self.kind, "").load()):
            what = f"{self.field}: {entry.value} is of type {type(found).__name__}"
            raise ConfigError(f"{what}; expected {self.kind.replace(':', '.')}")
        return found


def _installed(group: str) -> EntryPoints:
    """What the installed packages add; looked up again once one was installed or the path has changed."""
    return _entry_points(group, tuple((folder, _changed_ns(Path(folder))) for folder in sys.path))


@lru_cache(maxsize=16)
def _entry_points(group: str, path: tuple[tuple[str, int], ...]) -> EntryPoints:
    return entry_points(group=group)


def _changed_ns(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:  # it is missing or may not be read: a path may name such folders
        return 0
