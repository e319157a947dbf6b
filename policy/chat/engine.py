"""A chat model in a process of its own: the caller never imports torch, and closing it frees the memory."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from envgen.errors import ModelError
from envgen.processes import ended
from policy.chat.contract import Completion, Conversation, Progress, Sampling
from policy.chat.engine_config import EngineConfig
from policy.child import is_out_of_memory, vllm_python


class Engine(ABC):
    """A `ChatModel` whose process is started by the first call; reusable, closed explicitly.

    ModelError if the process ends during a call; the next call starts another.
    """

    def __init__(self, source: str, config: EngineConfig, log_path: Path) -> None:
        self.source, self.config, self.log_path = source, config, log_path

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation in order; ModelError says what to change where memory ran out."""
        completions: dict[int, Completion] = {}

        def add(new: Mapping[int, Completion]) -> None:
            completions.update(new)
            if progress:
                progress(new)

        try:
            if conversations:
                self._complete(conversations, sampling, add)
        except ModelError as error:
            if not is_out_of_memory(error):
                raise
            advice = f"{self.config.less_memory}. Its output is in {self.log_path}"
            raise ModelError(f"{error}; {advice}") from None
        except BaseException:
            self.close()  # its further answers belong to no later call
            raise
        return [completions[index] for index in range(len(conversations))]

    def _ended(self, status: int) -> ModelError:
        """The error of a call during which the process ended; cleans up after it."""
        self.close()
        what = f"{self.source}: the process that runs the model {ended(status)}; its output is in"
        return ModelError(f"{what} {self.log_path}; if it lacks memory, {self.config.less_memory}")

    @abstractmethod
    def _complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress
    ) -> None:
        """Report the completion of every conversation; ModelError."""

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
