"""Engine on Hugging Face transformers: a child process, asked over a pipe.

The child is this module: `python -m policy.chat.transformers_engine PIPE SOURCE DTYPE BATCH_SIZE`.
"""

import gc
import os
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection, Pipe
from typing import Any

from envgen.errors import ModelError
from envgen.processes import ended
from policy.chat.contract import Conversation, Progress, Sampling
from policy.chat.engine import EndedError, Engine
from policy.child import start_child, stop_child

NEW, DONE, REFUSED, FAILED = "new", "done", "refused", "failed"
"""Kinds of a reply: new completions by their index in the request, the end of the request, the text of a
ModelError, and the text of any other error, which ends the child."""


class TransformersEngine(Engine):
    """One child process that answers on Hugging Face transformers."""

    _child: subprocess.Popen[bytes] | None = None
    _pipe: Connection

    @property
    def pid(self) -> int | None:
        """The process, if it runs."""
        return self._child and self._child.pid

    def _start(self) -> subprocess.Popen[bytes]:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._pipe, theirs = Pipe()
        arguments = [str(theirs.fileno()), self.source, self.config.dtype, str(self.config.batch_size)]
        options = {"stdin": subprocess.DEVNULL, "pass_fds": [theirs.fileno()]}
        with theirs, open(self.log_path, "ab") as log:
            module = "policy.chat.transformers_engine"
            return start_child(module, arguments, stdout=log, stderr=log, **options)

    def _complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress
    ) -> None:
        self._child = self._child or self._start()
        kind, value = self._exchange((conversations, sampling))
        while kind == NEW:
            progress(value)
            kind, value = self._exchange()
        if kind == FAILED:
            self.close()
        if kind != DONE:
            raise ModelError(value)

    def _exchange(self, request: object = None) -> tuple[str, Any]:
        """Send a request, if there is one, and return the next reply."""
        assert self._child is not None
        try:
            if request is not None:
                self._pipe.send(request)
            return self._pipe.recv()
        except (EOFError, ConnectionError):
            raise EndedError(ended(self._child.wait())) from None

    def close(self) -> None:
        """End the child and all that it started."""
        if self._child is not None:
            stop_child(self._child)
            self._pipe.close()
            self._child = None


def main(pipe: Connection, source: str, dtype: str, batch_size: int) -> None:
    """Answer one request after the other until the pipe closes; an error that is no ModelError ends it."""
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
                _log(f"loads {source}")
                model = TransformersModel(source, batch_size=batch_size, dtype=dtype)
            _log(f"completes {len(conversations)} conversations by up to {sampling.max_tokens} tokens")
            model.complete(conversations, sampling, lambda new: pipe.send((NEW, new)))
            pipe.send((DONE, None))
        except ModelError as error:
            pipe.send((REFUSED, str(error)))
        except Exception as error:
            words = "out of memory" if isinstance(error, MemoryError) and not str(error) else str(error)
            pipe.send((FAILED, f"{source}: {type(error).__name__}: {words}"))
            raise


def _log(words: str) -> None:
    print(f"engine {os.getpid()}: {words}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])), sys.argv[2], sys.argv[3], int(sys.argv[4]))
