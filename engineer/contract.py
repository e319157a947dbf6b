"""What an engineer is, gets and returns; docs/engineer.md says how a package adds one."""

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, AwareDatetime, ConfigDict, Field

from engineer.answer import project
from engineer.context import DesignContext
from engineer.json_text import MAX_TEXT
from engineer.spec import EngineerSpec
from envgen.config import EnvConfig
from envgen.frozen import Frozen
from envgen.space import Space
from policy.chat.contract import ChatModel, Completion


def shortened(text: str, limit: int = MAX_TEXT) -> str:
    """A text of at most `limit` characters, which says how much of its end is missing."""
    if len(text) <= limit:
        return text
    # The note's length depends on the number in it, which has at most as many digits as the whole length.
    length = limit - len(f" [{len(text)} more characters]")
    return f"{text[:length]} [{len(text) - length} more characters]"


_Stored = Annotated[str, AfterValidator(shortened)]


class Attempt(Completion):
    """One answer of a model to the design question, its texts with at most `MAX_TEXT` characters, when it was
    asked and how long it took."""

    text: _Stored
    reasoning: _Stored = ""
    error: str | None = None
    """Why it could not be read; None if it could."""
    started: AwareDatetime
    seconds: float = Field(ge=0)


class Evidence(Frozen):
    """One number that an engineer named as a reason, None if it was no number, beside the context's."""

    stratum: str
    metric: str
    value: float | None
    true: float | None
    """The number in the context, counts as a share of the answers; None if the context has none."""
    agrees: bool


class Proposal(Frozen):
    """The next environment config and how it came about; stored once, never drawn again."""

    stage: int = Field(default=0, ge=0)
    """Stage whose failures were read, before the config's. `design` fills in this field and the next two."""
    engineer: str = ""
    context: str = ""
    """Context whose modules the engineer was shown."""
    prompt: str = ""
    """What a model was asked; empty for engineers without a model."""
    attempts: tuple[Attempt, ...] = ()
    rationale: str = ""
    """Why, in the engineer's words."""
    evidence: tuple[Evidence, ...] = ()
    proposed: dict | None = None
    """The config before projection; None if no answer could be read, or the engineer gave a legal config."""
    config: EnvConfig
    """The legal config that the next stage uses."""
    changes: tuple[str, ...] = ()
    """What projection changed, one sentence each."""
    fallback: str | None = None
    """Why the previous config was kept, if it was."""
    prompt_tokens: int | None = Field(default=0, ge=0)
    completion_tokens: int | None = Field(default=0, ge=0)
    """Of all attempts; None if unknown."""
    state: dict[str, Any] = Field(default_factory=dict, exclude=True)
    """JSON values that the engineer gets back a stage later; stored beside the proposal, not in it."""


class Brief(NamedTuple):
    """What an engineer gets besides the context: the seed is the run's, `model` the one that it `asks`."""

    spec: EngineerSpec
    seed: int
    model: ChatModel | None


class Engineer(Frozen):
    """A way to propose configs. Its fields are its options; the first line of its docstring is shown."""

    model_config = ConfigDict(allow_inf_nan=False, validate_default=True)
    asks: ClassVar[Literal["checkpoint", "base"] | None] = None
    """Chat model that it asks: the policy just trained, the base policy, or none."""
    reads_context: ClassVar[bool] = False
    """Whether a model is shown the context in words, so that its letters matter."""

    def check_fit(self, space: Space, stages: int) -> None:
        """Raise ValueError, before a run starts, for options that do not fit config space or stages."""

    def propose(self, context: DesignContext, brief: Brief) -> Proposal:
        """Return the proposal after a stage."""
        raise NotImplementedError


def projected(context: DesignContext, raw: dict, rationale: str, state: dict | None = None) -> Proposal:
    """Return the proposal of a raw config, see `project`."""
    config, changes = project(raw, context.space, context.current.config)
    return Proposal(config=config, proposed=raw, rationale=rationale, changes=changes, state=state or {})
