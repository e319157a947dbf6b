"""Answers that survive the process that asked for them: a repeated call asks only for the missing ones."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envgen.files import digest
from envgen.frozen import Frozen
from policy.chat.contract import ChatModel, Completion, Conversation, Progress, Sampling, equal_groups


class _Line(Frozen):
    """One answer in the file, by its conversation's index in the call."""

    index: int
    completion: Completion


class KeptAnswers:
    """A `ChatModel` that files each answer of another at once, and reads the answers of an earlier process.

    The first line of the file is a digest of all that decides the answers: conversations, sampling, and
    `decides`, the identity of the model and how it is run. Another call begins the file anew; a torn last
    line is skipped. The caller removes the file (`infra.runs.steps.run_step`)."""

    def __init__(self, model: ChatModel, path: Path, decides: Mapping[str, Any]) -> None:
        self.model, self.path, self.decides = model, path, dict(decides)

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation in order. Only those without a filed answer are asked; equal ones are
        asked together, since a draw depends on the rank among them. Answers before a ModelError are filed."""
        asked = [[(turn.role, turn.content) for turn in conversation] for conversation in conversations]
        key = digest([self.decides, sampling, asked])
        completions = self._read(key)
        if progress and completions:
            progress(dict(completions))
        groups = [group for group in equal_groups(conversations) if not completions.keys() >= set(group)]
        indices = sorted(index for group in groups for index in group)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab" if completions else "wb") as file:
            file.write(b"" if completions else key.encode())

            def add(batch: Mapping[int, Completion]) -> None:
                new = {indices[rank]: completion for rank, completion in batch.items()}
                new = {index: completion for index, completion in new.items() if index not in completions}
                completions.update(new)
                for index, completion in new.items():
                    # On a new line even after one that was cut off.
                    file.write(b"\n" + _Line(index=index, completion=completion).model_dump_json().encode())
                file.flush()
                if progress and new:
                    progress(new)

            if indices:
                self.model.complete([conversations[index] for index in indices], sampling, add)
        return [completions[index] for index in range(len(conversations))]

    def _read(self, key: str) -> dict[int, Completion]:
        """The filed answers of this call."""
        data = self.path.read_bytes() if self.path.exists() else b""
        first, *lines = data.splitlines() or [b""]
        completions: dict[int, Completion] = {}
        for line in lines if first == key.encode() else ():
            with suppress(ValidationError):
                entry = _Line.model_validate_json(line)
                completions[entry.index] = entry.completion
        return completions
