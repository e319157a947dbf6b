"""A chat model in a child process: the caller never imports torch, and closing it frees the memory.

On transformers the child is `python -m policy.chat.engine PIPE SOURCE OPTIONS`, asked over a pipe; see
`policy.chat.vllm_server` for vLLM."""

import gc
import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from envgen.errors import EndedError, ModelError
from envgen.processes import ended
from policy.chat.contract import Completion, Conversation, Progress, Sampling
from policy.chat.engine_config import EngineConfig
from policy.child import is_out_of_memory, start_child, stop_child


class Engine(ABC):
    """A `ChatModel` whose process is started by the first call; reusable, closed explicitly."""

    def __init__(
        self,
        source: str,
        config: EngineConfig,
        log_path: Path,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.source, self.config, self.log_path = source, config, log_path
        self.template_kwargs = dict(template_kwargs or {})
        self._child: subprocess.Popen[bytes] | None = None

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation in order; ModelError if the process ends, lacks memory or refuses."""
        completions: dict[int, Completion] = {}

        def add(new: Mapping[int, Completion]) -> None:
            completions.update(new)
            if progress:
                progress(new)

        try:
            self._complete(conversations, sampling, add)
        except BaseException as error:
            self.close()  # further answers belong to no later call, and what is left of memory is unknown
            if isinstance(error, ModelError) and is_out_of_memory(error):
                advice = f"{self.config.less_memory}. Its output is in {self.log_path}"
                raise ModelError(f"{error}; {advice}") from None
            raise
        return [completions[index] for index in range(len(conversations))]

    @abstractmethod
    def _complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress
    ) -> None:
        """Report the completion of every conversation; ModelError."""

    def _ended(self, status: int) -> EndedError:
        """Return the error for a process that ended with a return code."""
        remedy = f"its output is in {self.log_path}; if it lacks memory, {self.config.less_memory}"
        return EndedError(f"{self.source}: the process that runs the model {ended(status)}; {remedy}")

    def close(self) -> None:
        """End the process and all that it started."""
        if self._child is not None:
            stop_child(self._child)
            self._child = None


class TransformersEngine(Engine):
    """One child process that answers on Hugging Face transformers; it sends new completions by their index in
    the request, then None, or a ModelError."""

    _pipe: Connection

    def _start(self) -> subprocess.Popen[bytes]:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._pipe, theirs = Pipe()
        options = {"batch_size": self.config.batch_size, "dtype": self.config.dtype}
        options |= {"template_kwargs": self.template_kwargs}
        arguments = [str(theirs.fileno()), self.source, json.dumps(options)]
        streams = {"stdin": subprocess.DEVNULL, "pass_fds": [theirs.fileno()]}
        with theirs, open(self.log_path, "ab") as log:
            return start_child("policy.chat.engine", arguments, stdout=log, stderr=log, **streams)

    def _complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress
    ) -> None:
        self._child = self._child or self._start()
        try:
            self._pipe.send((conversations, sampling))
            while (reply := self._pipe.recv()) is not None:
                if isinstance(reply, ModelError):
                    raise reply
                progress(reply)
        except (EOFError, ConnectionError):
            raise self._ended(self._child.wait()) from None

    def close(self) -> None:
        """End the child and all that it started."""
        if self._child is not None:
            self._pipe.close()
        super().close()


def start_engine(
    source: str, config: EngineConfig, log_path: Path, template_kwargs: Mapping[str, Any] | None = None
) -> Engine:
    """The engine of `config.backend` for a checkpoint or hub id; ModelError if it is not installed."""
    if config.backend == "vllm":
        from policy.chat.vllm_server import VllmEngine

        return VllmEngine(source, config, log_path, template_kwargs)
    return TransformersEngine(source, config, log_path, template_kwargs)


def main(pipe: Connection, source: str, options: dict[str, Any]) -> None:
    """Answer one request after the other until the pipe closes."""
    gc.disable()  # see policy.grpo.training
    from policy.chat.transformers_model import TransformersModel

    gc.enable()
    model: TransformersModel | None = None
    while True:
        try:
            conversations, sampling = pipe.recv()
        except EOFError:
            return
        try:
            if model is None:
                print(f"engine {os.getpid()}: loads {source}", file=sys.stderr, flush=True)
                model = TransformersModel(source, **options)
            model.complete(conversations, sampling, pipe.send)
            pipe.send(None)
        except ModelError as error:
            pipe.send(error)
        except Exception as error:
            words = "out of memory" if isinstance(error, MemoryError) else str(error)
            pipe.send(ModelError(f"{source}: {type(error).__name__}: {words}"))
            raise


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])), sys.argv[2], json.loads(sys.argv[3]))
