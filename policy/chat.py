"""Chat model: anything that answers messages."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field


class Message(BaseModel):
    """One turn of a conversation."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    role: Literal["system", "user", "assistant"]
    content: str


class Sampling(BaseModel):
    """How completions are drawn."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    max_tokens: int = Field(ge=1)
    temperature: float = Field(default=0.0, ge=0)
    """0 is greedy."""
    seed: int = Field(default=0, ge=0)
    json_schema: dict[str, Any] | None = None
    """Decode under this schema: every complete answer is JSON that fits it."""


class Completion(BaseModel):
    """One answer of a chat model."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    text: str
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    finish_reason: Literal["stop", "length"]


Conversation = tuple[Message, ...]


class ChatModel(Protocol):
    """Answers conversations in order, one completion each."""

    def complete(self, conversations: Sequence[Conversation], sampling: Sampling, progress: Callable[[int], None] | None = None) -> list[Completion]:
        """Complete every conversation; `progress` is told how many are done. Raises ModelError."""
        ...


def ask(text: str) -> Conversation:
    """A conversation of one user message."""
    return (Message(role="user", content=text),)
