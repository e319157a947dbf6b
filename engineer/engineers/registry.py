"""Designers by name: our own, and those that installed packages add through the entry points
`envwright.designers`.

How a package adds one is told in `engineer.contract`.
"""

from typing import Any

from pydantic import ValidationError

from engineer.contract import Designer, DesignerOptions
from engineer.spec import DesignSpec
from envgen.errors import ConfigError, describe_validation_error
from envgen.family import Space
from envgen.plugins import Plugins

_DESIGNERS = Plugins(
    group="envwright.designers",
    noun="designer",
    field="design.designer",
    kind="engineer.contract:Designer",
    ours={
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
    },
)


def known_designers() -> list[str]:
    """Every name that `find_designer` knows, our own first."""
    return _DESIGNERS.known()


def find_designer(name: str) -> Designer[Any]:
    """The designer of a name; ConfigError if it is unknown, given twice or cannot be loaded."""
    return _DESIGNERS.find(name)


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
