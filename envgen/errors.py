"""Every error that envwright raises on purpose.

A message says what is wrong, what was got, and what to do about it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)


class EnvwrightError(Exception):
    """Base of the tree. Instances hold one string, so they survive pickling between processes."""


class ConfigError(EnvwrightError):
    """A setting, preset or environment config is wrong."""


class DataError(EnvwrightError):
    """A file of problems, instances or answers is wrong."""


class SamplingError(EnvwrightError):
    """No instance of the requested kind can be found."""


class ShortageError(SamplingError):
    """A stratum holds too few instances; `instances` has those that exist."""

    def __init__(self, message: str, instances: list[Any]) -> None:
        super().__init__(message)
        self.instances = instances


class UnreadableError(EnvwrightError):
    """An answer holds nothing that a scorer could compare."""


class RunDirectoryError(EnvwrightError):
    """A run directory belongs to something else, or is damaged."""


class ModelError(EnvwrightError):
    """A checkpoint cannot be loaded, or a model cannot answer."""


class EndedError(ModelError):
    """The process that runs a model ended while it answered."""


class EngineerError(EnvwrightError):
    """A design failed, and the run stops."""


class ChildError(EnvwrightError):
    """A child process (training, generation) failed."""


def describe_validation_error(error: Exception, source: str) -> str:
    """One line per problem of a pydantic `ValidationError`: where, what was got, what was expected. Of
    another error its text."""
    if not isinstance(error, ValidationError):
        return f"{source}: {error}"
    lines = []
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"])
        if not where and "ctx" in item and item["type"] == "value_error":
            # The error names the field; the input is the whole document.
            lines.append(f"{source}: {item['ctx']['error']}")
        else:
            lines.append(f"{source}: {where or '(top level)'}: {item['msg']} (got {excerpt(item['input'])})")
    return "\n".join(lines)


@contextmanager
def naming(source: str, kind: type[Exception] = DataError) -> Iterator[None]:
    """Raise what a value that does not fit raises inside as `kind`, which names source, field and value."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise kind(describe_validation_error(error, source)) from None


def validated(model: type[Model], value: Any, source: str, context: Any = None) -> Model:
    """Return a value as a pydantic model; ConfigError names `source`, field and value."""
    with naming(source, ConfigError):
        return model.model_validate(value, context=context)


def install(extra: str) -> str:
    """Return the command that installs an optional part of envwright from a checkout."""
    return f"pip install -e '.[{extra}]'"


def excerpt(value: object) -> str:
    """A value as a message shows it: its repr, cut to 80 characters."""
    try:
        text = repr(value)
    except RecursionError:
        return f"a {type(value).__name__} nested too deep to show"
    return text if len(text) <= 80 else text[:77] + "..."
