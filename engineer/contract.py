"""What an engineer is: one function from a `DesignContext` to a `Proposal`, its options, and the model it may
ask. How a package adds one is in docs/engineer.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import ConfigDict

from engineer.answer import project
from engineer.context import DesignContext
from engineer.proposal import Proposal
from engineer.spec import EngineerSpec, short_name
from envgen.config import EnvConfig
from envgen.frozen import Frozen
from envgen.space import Space
from policy.chat.contract import ChatModel


class EngineerOptions(Frozen):
    """The parameters of an engineer; this one has none."""

    model_config = ConfigDict(allow_inf_nan=False, validate_default=True)


Options = TypeVar("Options", bound=EngineerOptions)


@dataclass(frozen=True)
class Brief:
    """What an engineer gets besides the context and its options."""

    spec: EngineerSpec
    seed: int
    """Seed of the curriculum."""
    model: ChatModel | None
    """The chat model that the engineer `asks`; None for the others."""

    def proposal(
        self, context: DesignContext, raw: dict[str, Any], rationale: str, state: dict[str, Any] | None = None
    ) -> Proposal:
        """The proposal of a raw config, see `project`."""
        config, changes = project(raw, context.space, context.current.config)
        fields = {"rationale": rationale, "changes": changes, "state": state or {}}
        return proposal_of(self.spec, context, config, proposed=raw, **fields)

    def exactly(self, context: DesignContext, config: EnvConfig, rationale: str) -> Proposal:
        """The proposal of a config that is legal as it is."""
        raw = config.model_dump(mode="json")
        return proposal_of(self.spec, context, config, proposed=raw, rationale=rationale)


def proposal_of(spec: EngineerSpec, context: DesignContext, config: EnvConfig, **fields: Any) -> Proposal:
    """A proposal after the stage of a context, with further fields of `Proposal`."""
    asked = {"stage": context.current.stage, "engineer": short_name(spec.name), "context": spec.context}
    return Proposal(config=config, **asked, **fields)


@dataclass(frozen=True)
class Engineer(Generic[Options]):
    """A way to propose the next environment config."""

    propose: Callable[[DesignContext, Options, Brief], Proposal]
    """The first line of its docstring is what `envwright engineers` says of it."""
    options: type[Options] = EngineerOptions  # type: ignore[assignment]
    """The pydantic model of its parameters."""
    asks: Literal["checkpoint", "base"] | None = None
    """The chat model it asks: the policy just trained, the base policy, or none."""
    reads_context: bool = False
    """Whether a model that it brings along reads the context in words, so that the context matters;
    for one that `asks` it does anyway."""
    check: Callable[[Options, Space, int], None] | None = None
    """Refuses options that do not fit the config space and the number of stages, with a ValueError, before a
    run starts."""
