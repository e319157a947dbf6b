"""A chat model in a child process: the caller never imports torch, and closing it frees the memory."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from envgen.errors import ModelError
from policy.chat.contract import Completion, Conversation, Progress, Sampling, complete_missing
from policy.chat.engine_config import EngineConfig
from policy.child import is_out_of_memory, vllm_python

_log = logging.getLogger("envwright.engine")


class EndedError(Exception):
    """The process ended in the middle of a call; the message says how."""


class Engine(ABC):
    """A `ChatModel` whose process is started by the first call; reusable, closed explicitly.

    A process that ends during a call is started again once; ModelError if it ends again.
    """

    def __init__(self, source: str, config: EngineConfig, log_path: Path) -> None:
        self.source, self.config, self.log_path = source, config, log_path

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation in order; a second process is asked only for what is missing."""
        completions: dict[int, Completion] = {}
        report = progress or (lambda new: None)
        for last in (False, True):
            try:
                complete_missing(self._complete, conversations, sampling, completions, report)
                break
            except EndedError as error:
                self.close()
                ended = f"{self.source}: the process that runs the model {error}; its output is in"
                if last:
                    less = f"if it lacks memory, {self.config.less_memory}"
                    raise ModelError(f"{ended} {self.log_path}; {less}") from None
                _log.warning("%s %s; it is started again", ended, self.log_path)
            except ModelError as error:
                if not is_out_of_memory(error):
                    raise
                advice = f"{self.config.less_memory}. Its output is in {self.log_path}"
                raise ModelError(f"{error}; {advice}") from None
            except BaseException:
                self.close()  # its further answers belong to no later call
                raise
        return [completions[index] for index in range(len(conversations))]

    @abstractmethod
    def _complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress
    ) -> None:
        """Report the completion of every conversation; EndedError, ModelError."""

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
