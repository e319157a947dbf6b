"""Engineers by name: our own, and those that installed packages add through the entry points
`envwright.engineers`.

`engineer.contract` says how a package adds one.
"""

from typing import Any

from engineer.contract import Engineer, EngineerOptions
from engineer.spec import EngineerSpec
from envgen.errors import ConfigError, validated
from envgen.registry import Registry
from envgen.space import Space

_ENGINEERS = Registry(
    group="envwright.engineers",
    field="engineer.name",
    kind=Engineer,
    ours={
        "checkpoint": "engineer.engineers.llm:CHECKPOINT",
        "base": "engineer.engineers.llm:BASE",
        "openai": "engineer.engineers.llm:OPENAI",
        "random": "engineer.engineers.plain:RANDOM",
        "fixed": "engineer.engineers.plain:FIXED",
        "frontier": "engineer.engineers.rules:FRONTIER",
        "bandit": "engineer.engineers.rules:BANDIT",
        "learnability": "engineer.engineers.rules:LEARNABILITY",
        "gaussian": "engineer.engineers.rules:GAUSSIAN",
        "window": "engineer.engineers.ladder:WINDOW",
        "levels": "engineer.engineers.ladder:LEVELS",
        "replay": "engineer.engineers.plain:REPLAY",
    },
)


def known_engineers() -> list[str]:
    """Every name that `find_engineer` knows, our own first."""
    return _ENGINEERS.names()


def find_engineer(name: str) -> Engineer[Any]:
    """The engineer of a name; ConfigError if it is unknown, given twice or cannot be loaded."""
    return _ENGINEERS.load(name)


def reads_context(name: str) -> bool:
    """Whether an engineer reads the context in words, so that the context variant matters."""
    engineer = find_engineer(name)
    return engineer.asks is not None or engineer.reads_context


def variant_label(name: str, variant: str) -> str:
    """How comparisons, MLflow and Prefect name an engineer: `checkpoint-V6`, or `random` if it reads no
    context; part of file names."""
    return f"{name}-{variant}" if reads_context(name) else name


def read_options(spec: EngineerSpec, engineer: Engineer[Any]) -> EngineerOptions:
    """The engineer's options, defaults filled in; ConfigError names the field."""
    return validated(engineer.options, spec.options, f"engineer.options of engineer {spec.name!r}")


def resolve(spec: EngineerSpec, space: Space, stages: int) -> EngineerSpec:
    """The spec with the engineer's options filled in, after all checks that need no run.

    ConfigError says what is wrong.
    """
    engineer = find_engineer(spec.name)
    options = read_options(spec, engineer)
    try:
        if engineer.check:
            engineer.check(options, space, stages)
    except ValueError as error:
        raise ConfigError(f"engineer.options of engineer {spec.name!r}: {error}") from None
    return spec.model_copy(update={"options": options.model_dump(mode="json")})
