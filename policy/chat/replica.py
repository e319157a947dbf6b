"""One process that runs a model for `policy.chat.engine`: requests go in, replies come out, as JSON lines."""

import json
import os
import subprocess
from pathlib import Path

from envgen.errors import ModelError
from envgen.frozen import Frozen
from policy.chat.contract import Completion, Conversation, Sampling
from policy.chat.engine_config import EngineConfig
from policy.child import start_piped, stop_child

_CHUNK = 1 << 20
"""Bytes read from a pipe at once."""


class Request(Frozen):
    """Conversations to complete or token sequences to score, under the indices they have in the call."""

    conversations: dict[int, Conversation] = {}
    sampling: Sampling | None = None
    """Of the conversations."""
    sequences: dict[int, list[int]] = {}


class Reply(Frozen):
    """What is new: completions, scores, or why a request cannot be answered."""

    completions: dict[int, Completion] = {}
    scores: dict[int, list[float]] = {}
    error: str | None = None
    refused: list[int] = []
    """The indices of the request that the error is about."""
    last_words: str | None = None
    """Why the process ends now, which it does unasked."""


class EndedError(Exception):
    """The process ended in the middle of a call."""


class Replica:
    """A process with the model; started by the first request, and again by one after its end."""

    def __init__(self, number: int, source: str, config: EngineConfig, log_path: Path, python: str) -> None:
        self.number, self.source, self.config, self.log_path, self.python = (
            number,
            source,
            config,
            log_path,
            python,
        )
        self._child: subprocess.Popen[bytes] | None = None
        self._unread = b""

    @property
    def pid(self) -> int | None:
        """The process, if it runs."""
        return self._child and self._child.pid

    def fileno(self) -> int:
        """The pipe that replies come out of."""
        assert self._child is not None
        assert self._child.stdout is not None
        return self._child.stdout.fileno()

    def send(self, request: Request) -> None:
        """Hand over a request; EndedError if the process has ended."""
        child = self._running()
        assert child.stdin is not None
        try:
            child.stdin.write(request.model_dump_json(exclude_defaults=True).encode() + b"\n")
            child.stdin.flush()
        except BrokenPipeError:
            self.close()
            raise EndedError from None

    def receive(self) -> list[Reply]:
        """The replies that are there, after waiting for some output; EndedError if the process has ended."""
        read = os.read(self.fileno(), _CHUNK)
        if not read:
            self.close()
            raise EndedError
        # A line that was cut off is the last one of a killed process.
        *lines, self._unread = (self._unread + read).split(b"\n")
        return [Reply.model_validate_json(line) for line in lines]

    def close(self) -> None:
        """End the process and all that it started."""
        if self._child is None:
            return
        stop_child(self._child)
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:  # a request that it did not live to read
                continue
        self._child, self._unread = None, b""

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            spec = json.dumps({"source": self.source, "config": self.config.model_dump()})
            devices = device_slice(self.number, self.config)
            environment = {} if devices is None else {"CUDA_VISIBLE_DEVICES": ",".join(devices)}
            self._child = start_piped(
                "policy.chat.engine_child", [spec], environment, python=self.python, errors=self.log_path
            )
        return self._child


def device_slice(number: int, config: EngineConfig) -> list[str] | None:
    """The GPUs of a replica, as CUDA_VISIBLE_DEVICES names them; None where there is nothing to share out.

    Raises ModelError if there are too few.
    """
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    # Not asked of torch, which the parent never imports. NVIDIA's driver makes a file for each GPU.
    there = [str(index) for index, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]
    if given is not None:
        there = [name for part in given.split(",") if (name := part.strip())]
    needed = config.replicas * config.tensor_parallel
    if not there or needed == 1:
        return None
    if len(there) < needed:
        raise ModelError(
            f"engine.replicas {config.replicas} x engine.tensor_parallel {config.tensor_parallel} need "
            f"{needed} GPUs, {len(there)} can be seen; lower them, or set CUDA_VISIBLE_DEVICES to more"
        )
    first = number * config.tensor_parallel
    return there[first : first + config.tensor_parallel]
