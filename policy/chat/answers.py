"""Answers that survive the process that asked for them: a repeated call asks only for the missing ones."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envgen.files import digest
from envgen.frozen import Frozen
from policy.chat.contract import (
    ChatModel,
    Completion,
    Conversation,
    Progress,
    Sampling,
    equal_groups,
)


class _Line(Frozen):
    """One answer in the file."""

    key: str
    completion: Completion


class KeptAnswers:
    """A `ChatModel` that files each answer of another at once, and reads the answers of an earlier process.

    The key of an answer holds all that decides it: conversation and sampling, the rank among equal
    conversations, and `decides`, the identity of the model and how it is run. Killing the process loses no
    finished answer; a torn last line is skipped. The file is its caller's to remove
    (`infra.runs.steps.run_step`).
    """

    def __init__(self, model: ChatModel, path: Path, decides: Mapping[str, Any]) -> None:
        self.model, self.path, self.decides = model, path, dict(decides)

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation in order; only those without a filed answer are asked.

        Which completion a model draws for a conversation depends on the rank among equal ones: these are
        asked as a whole, or their completions repeat. ModelError; what is finished by then is filed.
        """
        keys = self._keys(conversations, sampling)
        filed, torn = self._read()
        completions = {index: filed[key] for index, key in keys.items() if key in filed}
        if progress and completions:
            progress(dict(completions))
        groups = [group for group in equal_groups(conversations) if not completions.keys() >= set(group)]
        indices = sorted(index for group in groups for index in group)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab") as file:
            file.write(b"\n" if torn else b"")

            def add(batch: Mapping[int, Completion]) -> None:
                new = {indices[rank]: completion for rank, completion in batch.items()}
                new = {index: completion for index, completion in new.items() if index not in completions}
                completions.update(new)
                for index, completion in new.items():
                    line = _Line(key=keys[index], completion=completion).model_dump_json()
                    file.write(line.encode() + b"\n")
                file.flush()
                if progress and new:
                    progress(new)

            if indices:
                self.model.complete([conversations[index] for index in indices], sampling, add)
        return [completions[index] for index in range(len(conversations))]

    def _keys(self, conversations: Sequence[Conversation], sampling: Sampling) -> dict[int, str]:
        how = digest({"decides": self.decides, "sampling": sampling})
        keys = {}
        for group in equal_groups(conversations):
            # Not `digest`: thousands of these are made in a call.
            asked = json.dumps([how, *((turn.role, turn.content) for turn in conversations[group[0]])])
            key = sha256(asked.encode()).hexdigest()
            keys |= {index: f"{key}-{rank}" for rank, index in enumerate(group)}
        return keys

    def _read(self) -> tuple[dict[str, Completion], bool]:
        """The filed answers, and whether the last line was torn."""
        filed, data = {}, self.path.read_bytes() if self.path.exists() else b""
        for line in data.splitlines():
            with suppress(ValidationError):
                entry = _Line.model_validate_json(line)
                filed[entry.key] = entry.completion
        return filed, bool(data) and not data.endswith(b"\n")
