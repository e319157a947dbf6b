"""Chat model: anything that answers messages."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from pydantic import Field

from envgen.frozen import Frozen


class Message(Frozen):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Sampling(Frozen):
    """How completions are drawn."""

    max_tokens: int = Field(ge=1)
    temperature: float = Field(default=0.0, ge=0)
    """0 is greedy."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Draw from the likeliest tokens that together have this probability; read above temperature 0."""
    seed: int = Field(default=0, ge=0)
    json_schema: dict[str, Any] | None = None
    """Decode under this schema: every complete answer is JSON that fits it."""


class Completion(Frozen):
    """One answer of a chat model."""

    text: str
    prompt_tokens: int | None = Field(ge=0)
    """None if a server did not report them."""
    completion_tokens: int | None = Field(ge=0)
    """Likewise; thoughts are included."""
    finish_reason: Literal["stop", "length"]
    reasoning: str = ""
    """Thoughts that a server sent apart from the text."""
    reasoning_tokens: int | None = Field(default=None, ge=0)
    """Tokens of thoughts that a server reported; None if it did not."""


Conversation = tuple[Message, ...]
Progress = Callable[[Mapping[int, Completion]], None]
"""Called with new completions, by their conversation's index in the call; with each once, in any order."""


class ChatModel(Protocol):
    """Answers conversations in order, one completion each."""

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation; `progress` gets completions as they come. Raises ModelError."""
        ...


def ask(text: str) -> Conversation:
    """A conversation of one user message."""
    return (Message(role="user", content=text),)


def token_sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum of token counts; None if one is unknown."""
    numbers = list(counts)
    return None if None in numbers else sum(filter(None, numbers))


def equal_groups(conversations: Sequence[Conversation]) -> list[list[int]]:
    """Return the indices of equal conversations together, in the order of their first ones."""
    groups: dict[Conversation, list[int]] = {}
    for index, conversation in enumerate(conversations):
        groups.setdefault(conversation, []).append(index)
    return list(groups.values())
