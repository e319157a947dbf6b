"""Client of `policy.chat.transformers_child`: requests and replies are lines of JSON on its pipes."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from envgen.errors import ModelError
from envgen.frozen import Frozen
from envgen.processes import ended
from policy.chat.contract import Completion, Conversation, Progress, Sampling
from policy.chat.engine import EndedError, Engine
from policy.chat.engine_config import EngineConfig
from policy.child import close_pipes, start_piped, stop_child

CHILD = "policy.chat.transformers_child"


class Request(Frozen):
    """Conversations to complete, or token sequences to score."""

    conversations: tuple[Conversation, ...] = ()
    sampling: Sampling | None = None
    sequences: tuple[list[int], ...] = ()


class Reply(Frozen):
    """A part of the answer to a request; the last reply to it is `done` or has an error."""

    completions: dict[int, Completion] = {}
    """New completions by their index in the request."""
    scores: list[list[float]] = []
    done: bool = False
    error: str | None = None
    ends: bool = False
    """Whether the child ends after this error."""


class TransformersEngine(Engine):
    """One child process that answers on Hugging Face transformers."""

    def __init__(self, source: str, config: EngineConfig, log_path: Path) -> None:
        super().__init__(source, config, log_path)
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, if it runs."""
        return self._child and self._child.pid

    def _complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress
    ) -> None:
        for reply in self._ask(Request(conversations=tuple(conversations), sampling=sampling)):
            progress(reply.completions)

    def _score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        request = Request(sequences=tuple(map(list, sequences)))
        return [scores for reply in self._ask(request) for scores in reply.scores]

    def _ask(self, request: Request) -> Iterator[Reply]:
        """The replies to a request, up to the last one."""
        if self._child is None:
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            arguments = [self.source, self.config.dtype, str(self.config.batch_size)]
            self._child = start_piped(CHILD, arguments, {}, errors=self.log_path)
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(request.model_dump_json(exclude_defaults=True).encode() + b"\n")
            child.stdin.flush()
        except BrokenPipeError:
            raise EndedError(ended(child.wait())) from None
        while (line := child.stdout.readline()).endswith(b"\n"):
            reply = Reply.model_validate_json(line)
            if reply.error is not None:
                if reply.ends:
                    self.close()
                raise ModelError(reply.error)
            yield reply
            if reply.done:
                return
        raise EndedError(ended(child.wait()))

    def close(self) -> None:
        """End the child and all that it started."""
        if self._child is not None:
            stop_child(self._child)
            close_pipes(self._child)
            self._child = None
