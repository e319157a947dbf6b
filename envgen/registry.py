"""Environments and engineers by name, shipped or from installed packages.

    # pyproject.toml of a package
    [project.entry-points."envwright.environments"]
    knots = "knots:Knots"

The value leads to a subclass of `envgen.environment.Environment`.
"""

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from envgen.environment import Environment
from envgen.errors import ConfigError, naming, validated
from envgen.files import canonical_json
from envgen.frozen import Frozen

DEFAULT = "mapf-frozenlake"


@dataclass(frozen=True)
class Registry:
    """Objects of one entry-point group."""

    group: str
    field: str
    """Field of a preset that names an object: `environment.name`."""
    kind: type
    """Type of the objects, or base of the classes."""
    ours: Mapping[str, str]
    """Name -> `module:object` of our own."""

    def names(self) -> list[str]:
        """Return all names, our own first."""
        return [*self.ours, *sorted(_installed(self.group, *sys.path).names - set(self.ours))]

    def load(self, name: str) -> Any:
        """Return the object of a name; ConfigError if it is unknown, ambiguous or cannot be loaded."""
        values = {self.ours[name]: None} if name in self.ours else {}
        values |= dict.fromkeys(e.value for e in _installed(self.group, *sys.path).select(name=name))
        if not values:
            near = difflib.get_close_matches(name, self.names(), n=3)
            hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
            names, noun = ", ".join(self.names()), self.field.partition(".")[0]
            raise ConfigError(f"{self.field}: there is no {noun} {name!r}; {hint}known are {names}")
        value, *others = values
        if others:
            both = " and ".join(values)
            raise ConfigError(f"{self.field}: {name!r} stands for {both}; uninstall one of the packages")
        try:
            loaded = EntryPoint(name, value, self.group).load()
        except Exception as error:  # whatever the module of a package raises
            reason = f"{type(error).__name__}: {error}"
            raise ConfigError(f"{self.field}: {name!r} cannot be loaded from {value}: {reason}") from None
        if not (issubclass(loaded, self.kind) if isinstance(loaded, type) else isinstance(loaded, self.kind)):
            expected = f"{self.kind.__module__}.{self.kind.__qualname__}"
            raise ConfigError(f"{self.field}: {value} is {loaded!r:.80}; expected {expected}")
        return loaded


@lru_cache(maxsize=16)
def _installed(group: str, *path: str) -> EntryPoints:
    return entry_points(group=group)


ENVIRONMENTS = Registry(
    group="envwright.environments",
    field="environment.name",
    kind=Environment,
    ours={
        DEFAULT: "envgen.mapf.environment:MapfFrozenLake",
        "dataset": "envgen.table.environment:DatasetEnvironment",
        "module": "envgen.module.environment:ModuleEnvironment",
        "reasoning-gym": "envgen.reasoning_gym:ReasoningGym",
        "sums": "envgen.sums:Sums",
        "verifiers": "envgen.table.verifiers:VerifiersEnvironment",
    },
)


class EnvironmentSpec(Frozen, use_attribute_docstrings=True):
    """Name and options of an environment in a preset."""

    name: str = Field(default=DEFAULT, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    options: dict[str, Any] = Field(default_factory=dict)

    def resolved(self, folder: Path = Path()) -> Self:
        """Return the spec with all options filled in, paths from `folder`; ConfigError names the field."""
        kind = ENVIRONMENTS.load(self.name)
        options = validated(kind.Options, self.options, "environment.options", {"folder": folder})
        return self.model_copy(update={"options": options.model_dump(mode="json")})

    def load(self) -> Environment:
        """Return the environment; ConfigError if there is none, or its options are wrong."""
        return _load(self.name, canonical_json(self.options))


@lru_cache(maxsize=32)
def _load(name: str, options: str) -> Environment:
    kind = ENVIRONMENTS.load(name)
    with naming("environment.options", ConfigError):
        environment = kind(kind.Options.model_validate_json(options))
    if missing := [field for field in ("name", "version", "space") if not hasattr(environment, field)]:
        names = " and no ".join(missing)
        raise ConfigError(f"environment.name: {name!r} has no {names}; set it in its class")
    return environment
