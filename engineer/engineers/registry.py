"""Designers by name: our own, and those that installed packages add through the entry points
`envwright.designers`.

How a package adds one is told in `engineer.contract`.
"""

import difflib
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import ValidationError

from engineer.contract import Designer, DesignerOptions
from engineer.spec import DesignSpec
from envgen.errors import ConfigError, describe_validation_error
from envgen.family import Space

GROUP = "envwright.designers"

_OURS = {
    "checkpoint": "engineer.engineers.asking:CHECKPOINT",
    "base": "engineer.engineers.asking:BASE",
    "openai": "engineer.engineers.openai:OPENAI",
    "random": "engineer.engineers.plain:RANDOM",
    "fixed": "engineer.engineers.plain:FIXED",
    "frontier": "engineer.engineers.frontier:FRONTIER",
    "bandit": "engineer.engineers.bandit:BANDIT",
    "progress": "engineer.engineers.progress:PROGRESS",
    "levels": "engineer.engineers.levels:LEVELS",
    "replay": "engineer.engineers.replay:REPLAY",
}


def known_designers() -> list[str]:
    """Every name that `find_designer` knows, our own first."""
    return [*_OURS, *sorted({entry.name for entry in entry_points(group=GROUP)} - set(_OURS))]


def find_designer(name: str) -> Designer[Any]:
    """The designer of a name; ConfigError if it is unknown, given twice or cannot be loaded."""
    found = [EntryPoint(name, _OURS[name], GROUP)] if name in _OURS else []
    # A package that is found twice on the path is one designer, two values under one name are two.
    found += [
        entry
        for entry in entry_points(group=GROUP, name=name)
        if entry.value not in {other.value for other in found}
    ]
    if not found:
        known = known_designers()
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise ConfigError(
            f"design.designer: there is no designer {name!r}; {hint}known are {', '.join(known)}"
        )
    if len({entry.value for entry in found}) > 1:
        values = " and ".join(entry.value for entry in found)
        raise ConfigError(
            f"design.designer: {name!r} names two designers, {values}; uninstall one of the packages"
        )
    return _load(found[0])


def _load(entry: EntryPoint) -> Designer[Any]:
    try:
        designer = entry.load()
    except Exception as error:  # whatever a package does when it is imported
        where = f"design.designer: {entry.name!r} cannot be loaded from {entry.value}"
        raise ConfigError(f"{where}: {type(error).__name__}: {error}") from None
    if not isinstance(designer, Designer):
        what = f"design.designer: {entry.value} is of type {type(designer).__name__}"
        raise ConfigError(f"{what}; expected an engineer.contract.Designer")
    return designer


def read_options(spec: DesignSpec, designer: Designer[Any]) -> DesignerOptions:
    """The designer's options, defaults filled in; ConfigError names the field."""
    try:
        return designer.options.model_validate(spec.options)
    except ValidationError as error:
        raise ConfigError(
            describe_validation_error(error, f"design.options of designer {spec.designer!r}")
        ) from None


def resolve(spec: DesignSpec, space: Space, stages: int) -> DesignSpec:
    """The spec with the designer's options filled in, after all checks that need no run.

    ConfigError says what is wrong.
    """
    designer = find_designer(spec.designer)
    options = read_options(spec, designer)
    try:
        if designer.check:
            designer.check(options, space, stages)
    except ValueError as error:
        raise ConfigError(f"design.options of designer {spec.designer!r}: {error}") from None
    return spec.model_copy(update={"options": options.model_dump(mode="json")})
