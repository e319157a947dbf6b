"""A chat model in a child process, so that the caller never imports torch and its memory is free when it is closed."""

import json
import logging
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from envgen.errors import ModelError
from policy.chat import Completion, Conversation, Sampling
from policy.child import start_child, stop_child

_log = logging.getLogger("envwright.engine")


class EngineConfig(BaseModel):
    """How the model is loaded."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    batch_size: int = Field(default=64, ge=1)
    """Prompts generated together."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"


class Request(BaseModel):
    """One call over the pipe: a line of JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    conversations: list[Conversation]
    sampling: Sampling


class Reply(BaseModel):
    """One line of answer: progress, the completions, or an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    done: int | None = None
    completions: list[Completion] | None = None
    error: str | None = None


class _ChildEndedError(Exception):
    """The child ended in the middle of a call."""


class EngineChatModel:
    """A `ChatModel` whose model lives in a child process; started by the first call, reusable, closed explicitly."""

    def __init__(self, source: str, config: EngineConfig, log_path: Path) -> None:
        self.source, self.config, self.log_path = source, config, log_path
        self._child: subprocess.Popen | None = None

    def complete(self, conversations: Sequence[Conversation], sampling: Sampling, progress: Callable[[int], None] | None = None) -> list[Completion]:
        """Complete every conversation in order. A child that is killed is started again, once; ModelError if it fails for another reason, or again."""
        request = Request(conversations=list(conversations), sampling=sampling)
        try:
            return self._ask(request, progress)
        except _ChildEndedError:
            _log.warning("%s: the process that runs the model ended unexpectedly and is started again; its output is in %s", self.source, self.log_path)
        try:
            return self._ask(request, progress)
        except _ChildEndedError:
            raise ModelError(f"{self.source}: the process that runs the model ended unexpectedly, twice; its output is in {self.log_path}") from None

    def _ask(self, request: Request, progress: Callable[[int], None] | None) -> list[Completion]:
        child = self._running_child()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(request.model_dump_json() + "\n")
            child.stdin.flush()
        except BrokenPipeError:
            self.close()
            raise _ChildEndedError from None
        for line in child.stdout:
            # A line that was cut off is the last one of a killed child.
            reply = Reply.model_validate_json(line) if line.endswith("\n") else Reply()
            if reply.error is not None:
                raise ModelError(reply.error)
            if reply.completions is not None:
                return reply.completions
            if progress and reply.done is not None:
                progress(reply.done)
        self.close()
        raise _ChildEndedError

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            stop_child(self._child)
            self._child = None

    def _running_child(self) -> subprocess.Popen:
        if self._child is None:
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            spec = json.dumps({"source": self.source, **self.config.model_dump()})
            with open(self.log_path, "a", encoding="utf-8") as log:
                self._child = start_child("policy.engine_child", [spec], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        return self._child
