"""Engineers by name: our own, and those that installed packages add through the entry points
`envwright.engineers`.

`engineer.contract` says how a package adds one, `engineer.engineers.function` what a function in a file is.
"""

import re
from typing import Literal

from engineer.answer import nearest
from engineer.contract import Engineer
from engineer.engineers.function import digest_of, function_engineer
from engineer.spec import EngineerSpec, is_function, short_name
from envgen.errors import ConfigError, validated
from envgen.registry import Registry
from envgen.space import Space

_ENGINEERS = Registry(
    group="envwright.engineers",
    field="engineer.name",
    kind=Engineer,
    ours={
        "checkpoint": "engineer.engineers.llm:Checkpoint",
        "base": "engineer.engineers.llm:Base",
        "openai": "engineer.engineers.llm:OpenAI",
        "random": "engineer.engineers.guards:Random",
        "fixed": "engineer.engineers.guards:Fixed",
        "frontier": "engineer.engineers.rules:Frontier",
        "bandit": "engineer.engineers.rules:Bandit",
        "learnability": "engineer.engineers.rules:Learnability",
        "gaussian": "engineer.engineers.rules:Gaussian",
        "window": "engineer.engineers.rules:Window",
        "levels": "engineer.engineers.rules:Levels",
        "replay": "engineer.engineers.guards:Replay",
    },
)


def known_engineers() -> list[str]:
    """Return every name that `find_engineer` knows, our own first."""
    return _ENGINEERS.names()


def find_engineer(name: str, sha256: str = "") -> type[Engineer]:
    """Return the engineer of a name; ConfigError if it is unknown, given twice or cannot be loaded.

    The file of a function must have the digest `sha256`, if that is given."""
    if is_function(name):
        stem = short_name(name)
        if stem in known_engineers() or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", stem):
            raise ConfigError(
                f"engineer.name: {stem!r} is another engineer, or cannot be a name; rename {stem}.py, with"
                " letters, digits, dots, underscores and dashes"
            )
        return function_engineer(name, sha256 or digest_of(name))
    if name.endswith(".py"):
        raise ConfigError(f"engineer.name: {name!r} names no function; write {name}:propose")
    return _ENGINEERS.load(name)


def asks(name: str) -> Literal["checkpoint", "base"] | None:
    """Return the policy that an engineer asks; None if it asks none. The file of a function is not read."""
    return None if is_function(name) else find_engineer(name).asks


def reads_context(name: str) -> bool:
    """Whether an engineer reads the context in words, so that the context matters."""
    return not is_function(name) and find_engineer(name).reads_context


def engineer_label(name: str, context: str) -> str:
    """Return the name of an engineer in comparisons, MLflow, Prefect and file names: `checkpoint-V6`, or
    `random` if it reads no context."""
    return f"{name}-{context}" if reads_context(name) else short_name(name)


def split_context(text: str) -> tuple[str, str]:
    """Return the engineer and the context of `checkpoint:V1`; the context is empty if none is named."""
    name, _, context = (text, "", "") if is_function(text) else text.partition(":")
    return name, context


def load(spec: EngineerSpec) -> Engineer:
    """Return the engineer of a spec with its options, defaults filled in; ConfigError names the field."""
    engineer = find_engineer(spec.name, spec.sha256)
    where, fields = f"engineer.options of engineer {short_name(spec.name)!r}", engineer.model_fields
    for name in spec.options.keys() - fields.keys():  # without the value, which may be a key
        raise ConfigError(f"{where}: there is no {name!r}; {nearest(name, fields)}")
    return validated(engineer, spec.options, where)


def resolve(spec: EngineerSpec, space: Space, stages: int) -> EngineerSpec:
    """Return the spec with the engineer's options filled in, after all checks that need no run; ConfigError
    says what is wrong."""
    engineer = load(spec)
    sha256 = (spec.sha256 or digest_of(spec.name)) if is_function(spec.name) else ""
    try:
        engineer.check_fit(space, stages)
    except ValueError as error:
        raise ConfigError(f"engineer.options of engineer {short_name(spec.name)!r}: {error}") from None
    return spec.model_copy(update={"options": engineer.model_dump(mode="json"), "sha256": sha256})
