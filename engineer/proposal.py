"""What an engineer proposes, and the record of how it became a config."""

from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, Field

from envgen.config import EnvConfig
from envgen.frozen import Frozen
from policy.chat.contract import Completion

MAX_TEXT = 20_000
"""Characters of an answer that are read, without thoughts, and that are stored."""


def shortened(text: str, limit: int = MAX_TEXT) -> str:
    """A text of at most `limit` characters, which says how much of its end is missing."""
    if len(text) <= limit:
        return text
    # The note's length depends on the number in it, which has at most as many digits as the whole length.
    length = limit - len(f" [{len(text)} more characters]")
    return f"{text[:length]} [{len(text) - length} more characters]"


_Stored = Annotated[str, AfterValidator(shortened)]


class Attempt(Completion):
    """One answer of a model to the design question, its texts with at most `MAX_TEXT` characters."""

    text: _Stored
    reasoning: _Stored = ""
    error: str | None = None
    """Why it could not be read; None if it could."""
    started: AwareDatetime
    """When the model was asked."""
    seconds: float = Field(ge=0)
    """How long it took to answer."""


class Evidence(Frozen):
    """One number that an engineer named as a reason."""

    stratum: str
    metric: str
    value: float | None
    """None if it was no number."""
    true: float | None
    """The number in the context, counts as a share of the answers; None if the context has none."""
    agrees: bool


class Proposal(Frozen):
    """The next environment config and how it came about; stored once, never drawn again."""

    stage: int = Field(default=0, ge=0)
    """The stage whose failures were read; the config is for the stage after it. `design` fills in this field
    and the next two."""
    engineer: str = ""
    context: str = ""
    """Context whose modules the engineer was shown."""
    prompt: str = ""
    """What a model was asked; empty for engineers without a model."""
    attempts: tuple[Attempt, ...] = ()
    rationale: str = ""
    """Why, in the engineer's words."""
    evidence: tuple[Evidence, ...] = ()
    """Numbers that it named as reasons, checked against the context."""
    proposed: dict | None = None
    """The config before projection; None if no answer could be read, or the engineer gave a legal config."""
    config: EnvConfig
    """The legal config that the next stage uses."""
    changes: tuple[str, ...] = ()
    """What projection changed, one sentence each."""
    fallback: str | None = None
    """Why the previous config was kept, if it was."""
    prompt_tokens: int | None = Field(default=0, ge=0)
    """Of all attempts; None if unknown."""
    completion_tokens: int | None = Field(default=0, ge=0)
    """Likewise."""
    requests: int = Field(default=0, ge=0)
    """Requests sent to an endpoint, retries included; 0 for engineers without one."""
    state: dict[str, Any] = Field(default_factory=dict, exclude=True)
    """What the engineer is given back a stage later, as JSON values; stored beside the proposal, not in
    it."""
