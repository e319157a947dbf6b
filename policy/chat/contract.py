"""Chat model: anything that answers messages."""

from collections.abc import Callable, Mapping, Sequence
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
    seed: int = Field(default=0, ge=0)
    json_schema: dict[str, Any] | None = None
    """Decode under this schema: every complete answer is JSON that fits it."""


class Completion(Frozen):
    """One answer of a chat model."""

    text: str
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    finish_reason: Literal["stop", "length"]


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


def equal_groups(conversations: Sequence[Conversation]) -> list[list[int]]:
    """Return the indices of equal conversations together, in the order of their first ones."""
    groups: dict[Conversation, list[int]] = {}
    for index, conversation in enumerate(conversations):
        groups.setdefault(conversation, []).append(index)
    return list(groups.values())


def complete_missing(
    complete: Callable[[Sequence[Conversation], Sampling, Progress], Any],
    conversations: Sequence[Conversation],
    sampling: Sampling,
    completions: dict[int, Completion],
    progress: Progress,
) -> None:
    """Complete the conversations that have no completion yet, and add theirs to `completions`.

    Which completion a model draws for a conversation depends on the rank among equal ones: these are asked
    as a whole, or their completions repeat. `progress` gets each new completion once.
    """
    groups = [group for group in equal_groups(conversations) if not completions.keys() >= set(group)]
    indices = sorted(index for group in groups for index in group)

    def add(batch: Mapping[int, Completion]) -> None:
        new = {indices[rank]: completion for rank, completion in batch.items()}
        new = {index: completion for index, completion in new.items() if index not in completions}
        completions.update(new)
        if new:
            progress(new)

    if indices:
        complete([conversations[index] for index in indices], sampling, add)
