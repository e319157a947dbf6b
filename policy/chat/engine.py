"""A chat model in a process of its own: the caller never imports torch, and closing it frees the memory."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from envgen.errors import ModelError
from policy.chat.contract import Completion, Conversation, Progress, Sampling, equal_groups
from policy.chat.engine_config import EngineConfig
from policy.child import vllm_python
from policy.grpo.out_of_memory import is_out_of_memory

_log = logging.getLogger("envwright.engine")
STARTS = 2
"""Processes started for one call: the second one is asked for what the first one owed."""


class EndedError(Exception):
    """The process ended in the middle of a call; the message says how."""


class Engine(ABC):
    """A `ChatModel` whose process is started by the first call; reusable, closed explicitly."""

    def __init__(self, source: str, config: EngineConfig, log_path: Path) -> None:
        self.source, self.config, self.log_path = source, config, log_path

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation in order.

        A process that ends is started again once and asked for the rest; ModelError if it ends again.
        """
        completions: dict[int, Completion] = {}
        for start in range(STARTS):
            # Whole groups: a sampled answer depends on the rank among equal conversations.
            groups = [g for g in equal_groups(conversations) if not completions.keys() >= set(g)]
            owed = sorted(index for group in groups for index in group)
            if not owed:
                break

            def report(batch: Mapping[int, Completion], owed: list[int] = owed) -> None:
                new = {owed[n]: one for n, one in batch.items() if owed[n] not in completions}
                completions.update(new)
                if progress and new:
                    progress(new)

            try:
                self._complete([conversations[index] for index in owed], sampling, report)
            except EndedError as error:
                self.close()
                self._restart(start, error)
            except ModelError as error:
                raise self._with_advice(error) from None
            except BaseException:
                self.close()  # its further answers belong to no later call
                raise
        return [completions[index] for index in range(len(conversations))]

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """For each sequence of n >= 1 token ids the n - 1 log-probabilities of its tokens after the first.

        They are in nats, at temperature 1. ModelError if a sequence is empty or too long for the model.
        """
        for start in range(STARTS):
            try:
                return self._score(sequences)
            except EndedError as error:
                self.close()
                self._restart(start, error)
        raise AssertionError("unreachable")

    def _restart(self, start: int, error: EndedError) -> None:
        message = f"{self.source}: the process that runs the model {error}; its output is in {self.log_path}"
        if start + 1 == STARTS:
            raise ModelError(f"{message}; if it lacks memory, {self.config.less_memory}") from None
        _log.warning("%s; it is started again", message)

    def _with_advice(self, error: ModelError) -> ModelError:
        if not is_out_of_memory(RuntimeError(str(error))):
            return error
        return ModelError(f"{error}; {self.config.less_memory}. Its output is in {self.log_path}")

    @abstractmethod
    def _complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress
    ) -> None:
        """Report the completion of every conversation; EndedError, ModelError."""

    @abstractmethod
    def _score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]: ...

    @abstractmethod
    def close(self) -> None:
        """End the process."""


def start_engine(source: str, config: EngineConfig, log_path: Path) -> Engine:
    """The engine of `config.backend` for a checkpoint or hub id; ModelError if it is not installed."""
    if config.backend == "vllm":
        from policy.chat.vllm_server import VllmEngine

        return VllmEngine(source, config, log_path, vllm_python())
    from policy.chat.transformers_engine import TransformersEngine

    return TransformersEngine(source, config, log_path)
