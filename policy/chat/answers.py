"""Answers that survive the process that asked for them: a repeated call asks only for what is owed."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envgen.files import digest
from envgen.frozen import Frozen
from policy.chat.contract import ChatModel, Completion, Conversation, Progress, Sampling, equal_groups


class _Line(Frozen):
    """One kept answer."""

    key: str
    completion: Completion


class KeptAnswers:
    """A `ChatModel` that files each answer of another at once, and finds those of an earlier process.

    An answer is found again by what decides it: conversation and sampling, the rank among equal
    conversations, and `decides`, which holds the identity of the model and how it is run. Killing the process
    loses no finished answer; a torn last line is passed over. The file is its caller's to remove, once what
    was made of the answers is safe (`infra.runs.steps.run_step`).
    """

    def __init__(self, model: ChatModel, path: Path, decides: Mapping[str, Any]) -> None:
        self.model, self.path, self.decides = model, path, dict(decides)

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation in order; only those without a kept answer are asked.

        Raises ModelError; what is finished by then is kept.
        """
        keys = self._keys(conversations, sampling)
        kept, torn = self._read()
        found = {index: kept[key] for index, key in keys.items() if key in kept}
        if progress and found:
            progress(dict(found))
        # A group is asked as a whole, or its sampled answers would repeat those that are there.
        owed = [group for group in equal_groups(conversations) if not found.keys() >= set(group)]
        if owed:
            indices = sorted(index for group in owed for index in group)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab") as file:
                file.write(b"\n" if torn else b"")

                def keep(new: Mapping[int, Completion]) -> None:
                    fresh = {indices[place]: one for place, one in new.items() if indices[place] not in found}
                    for index, completion in fresh.items():
                        line = _Line(key=keys[index], completion=completion).model_dump_json()
                        file.write(line.encode() + b"\n")
                    file.flush()
                    found.update(fresh)
                    if progress and fresh:
                        progress(fresh)

                self.model.complete([conversations[index] for index in indices], sampling, keep)
        return [found[index] for index in range(len(conversations))]

    def _keys(self, conversations: Sequence[Conversation], sampling: Sampling) -> dict[int, str]:
        how = digest({"decides": self.decides, "sampling": sampling})
        keys = {}
        for group in equal_groups(conversations):
            # Not `digest`: thousands of these are made in a call.
            asked = json.dumps([how, *((one.role, one.content) for one in conversations[group[0]])])
            key = sha256(asked.encode()).hexdigest()
            keys |= {index: f"{key}-{rank}" for rank, index in enumerate(group)}
        return keys

    def _read(self) -> tuple[dict[str, Completion], bool]:
        """The kept answers, and whether the last line was torn."""
        found, data = {}, self.path.read_bytes() if self.path.exists() else b""
        for line in data.splitlines():
            with suppress(ValidationError):
                kept = _Line.model_validate_json(line)
                found[kept.key] = kept.completion
        return found, bool(data) and not data.endswith(b"\n")
