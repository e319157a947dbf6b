"""Task families by name: our own, and those that installed packages add through `envwright.families`.

    # pyproject.toml of a package
    [project.entry-points."envwright.families"]
    knots = "knots_family:FAMILY"

    # knots_family.py
    FAMILY = Family(Options, Knots)

`Options` is a pydantic model, and `Knots(options)` an `envgen.family.TaskFamily`, which mostly is an
`envgen.plain.PlainFamily`; `envgen.sums` is a whole one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError

from envgen.errors import ConfigError, describe_validation_error
from envgen.family import TaskFamily
from envgen.files import canonical_json
from envgen.frozen import Frozen
from envgen.plugins import Plugins

DEFAULT = "mapf-frozenlake"
FAMILIES = Plugins(
    group="envwright.families",
    noun="family",
    field="family.name",
    kind="envgen.families:Family",
    ours={
        DEFAULT: "envgen.mapf.family:FAMILY",
        "module": "envgen.module.family:FAMILY",
        "reasoning-gym": "envgen.puzzles.family:FAMILY",
        "sums": "envgen.sums:FAMILY",
    },
)


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

    def resolved(self, folder: Path = Path()) -> Self:
        """The spec with all options filled in, paths from `folder`; ConfigError says what is wrong."""
        try:
            options = find_family(self.name).options.model_validate(self.options, context={"folder": folder})
        except ValidationError as error:
            raise ConfigError(describe_validation_error(error, "family.options")) from None
        return self.model_copy(update={"options": options.model_dump(mode="json")})

    def load(self) -> TaskFamily:
        """The family; ConfigError if there is none, or its options are wrong."""
        return _load(self.name, canonical_json(self.options))


def find_family(name: str) -> Family:
    """The family of a name; ConfigError if it is unknown, given twice or cannot be loaded."""
    return FAMILIES.find(name)


@lru_cache(maxsize=32)
def _load(name: str, options: str) -> TaskFamily:
    family = find_family(name)
    try:
        found = family.build(family.options.model_validate_json(options))
    except ValidationError as error:
        raise ConfigError(describe_validation_error(error, "family.options")) from None
    except ValueError as error:
        raise ConfigError(f"family.options of {name!r}: {error}") from None
    if missing := [attribute for attribute in ("name", "version", "space") if not hasattr(found, attribute)]:
        raise ConfigError(
            f"family.name: {name!r} has no {' and no '.join(missing)}; set it in its class"
            " (envgen.family.TaskFamily says what each is)"
        )
    return found
