"""What an engineer is; docs/engineer.md says how a package adds one."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from engineer.answer import project
from engineer.context import DesignContext
from engineer.proposal import Proposal
from engineer.spec import EngineerSpec
from envgen.frozen import Frozen
from envgen.space import Space
from policy.chat.contract import ChatModel


@dataclass(frozen=True)
class Brief:
    """What an engineer gets besides the context."""

    spec: EngineerSpec
    seed: int
    """Seed of the curriculum."""
    model: ChatModel | None
    """The chat model that the engineer `asks`; None for the others."""


class Engineer(Frozen):
    """A way to propose the next environment config. Its fields are its options; the first line of its
    docstring says what it proposes."""

    model_config = ConfigDict(allow_inf_nan=False, validate_default=True)
    asks: ClassVar[Literal["checkpoint", "base"] | None] = None
    """Chat model that it asks: the policy just trained, the base policy, or none."""
    reads_context: ClassVar[bool] = False
    """Whether a model is shown the context in words, so that its letters matter."""

    def check_fit(self, space: Space, stages: int) -> None:
        """Raise ValueError, before a run starts, for options that do not fit the config space or the number
        of stages."""

    def propose(self, context: DesignContext, brief: Brief) -> Proposal:
        """Return the proposal after a stage."""
        raise NotImplementedError


def projected(
    context: DesignContext, raw: dict[str, Any], rationale: str, state: dict[str, Any] | None = None
) -> Proposal:
    """Return the proposal of a raw config, see `project`."""
    config, changes = project(raw, context.space, context.current.config)
    return Proposal(config=config, proposed=raw, rationale=rationale, changes=changes, state=state or {})
