"""Task families by name: our own, and those that installed packages add through `envwright.families`.

    # pyproject.toml of a package
    [project.entry-points."envwright.families"]
    knots = "knots_family:FAMILY"

    # knots_family.py
    FAMILY = Family(Options, Knots)

`Options` is a pydantic model, and `Knots(options)` an `envgen.family.TaskFamily`; `envgen.sums` is a whole
one.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError

from envgen.errors import ConfigError, describe_validation_error
from envgen.family import TaskFamily
from envgen.files import canonical_json
from envgen.frozen import Frozen

GROUP = "envwright.families"
DEFAULT = "mapf-frozenlake"
_OURS = {DEFAULT: "envgen.mapf.family:FAMILY", "sums": "envgen.sums:FAMILY"}


@dataclass(frozen=True)
class Family:
    """How a family is made."""

    options: type[BaseModel]
    build: Callable[[Any], TaskFamily]
    """Options -> the family; a ValueError says what is wrong with them."""


class FamilySpec(Frozen):
    """A family with its options, as a preset names it."""

    name: str = Field(default=DEFAULT, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    options: dict[str, Any] = Field(default_factory=dict)

    def resolved(self) -> Self:
        """The spec with all options filled in; ConfigError says what is wrong with them."""
        try:
            options = find_family(self.name).options.model_validate(self.options)
        except ValidationError as error:
            raise ConfigError(describe_validation_error(error, "family.options")) from None
        return self.model_copy(update={"options": options.model_dump(mode="json")})

    def load(self) -> TaskFamily:
        """The family; ConfigError if there is none, or its options are wrong."""
        return _load(self.name, canonical_json(self.options))


def known_families() -> list[str]:
    """Every name that `find_family` knows, our own first."""
    return [*_OURS, *sorted({entry.name for entry in entry_points(group=GROUP)} - set(_OURS))]


def find_family(name: str) -> Family:
    """The family of a name; ConfigError if it is unknown, given twice or cannot be loaded."""
    found = [EntryPoint(name, _OURS[name], GROUP)] if name in _OURS else []
    found += [
        entry
        for entry in entry_points(group=GROUP, name=name)
        if entry.value not in {other.value for other in found}
    ]
    if not found:
        near = difflib.get_close_matches(name, known_families(), n=3)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise ConfigError(
            f"family.name: there is no family {name!r}; {hint}known are {', '.join(known_families())}"
        )
    if len({entry.value for entry in found}) > 1:
        values = " and ".join(entry.value for entry in found)
        raise ConfigError(f"{name!r} names two families, {values}; uninstall one of the packages")
    try:
        family = found[0].load()
    except Exception as error:  # whatever a package does when it is imported
        where = f"{name!r} cannot be loaded from {found[0].value}"
        raise ConfigError(f"{where}: {type(error).__name__}: {error}") from None
    if not isinstance(family, Family):
        what = f"{found[0].value} is of type {type(family).__name__}"
        raise ConfigError(f"{what}; expected an envgen.families.Family")
    return family


@lru_cache(maxsize=32)
def _load(name: str, options: str) -> TaskFamily:
    family = find_family(name)
    try:
        return family.build(family.options.model_validate_json(options))
    except ValidationError as error:
        raise ConfigError(describe_validation_error(error, "family.options")) from None
    except ValueError as error:
        raise ConfigError(f"family.options of {name!r}: {error}") from None
