"""A child process for foreign generators and scorers: one that hangs, dies or prints does no harm.

Requests and replies are lines of JSON over a socket; each reply has a deadline. The child has a fixed hash
seed, a limit of memory, and no standard input or output. This guards against mistakes; it is no sandbox.
"""

import json
import os
import pkgutil
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from envgen.errors import ConfigError, EnvwrightError
from envgen.frozen import Frozen
from envgen.processes import ended, linked_packages, own_modules_first, start_process

MAX_REPLY = 64_000_000
"""Bytes of one reply."""
MESSAGE_CHARACTERS = 500
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


class GeneratorError(EnvwrightError):
    """A generator raised, died, was too slow, or returned an illegal value."""


class Limits(Frozen):
    """Limits of a generator."""

    start_seconds: float = 120.0
    """Deadline of its imports."""
    seconds: float = 10.0
    """Deadline of one request: to draw an instance, or to score an answer."""
    batch_seconds: float = 300.0
    """Deadline of all answers that are scored in one call."""
    memory: int = 4 << 30
    """Bytes of address space."""


class Worker:
    """The process of one generator, started on demand, and again after it died. Threads may share it.

    `source` names the foreign code in messages. `opener` is `module:function`; the child calls the function
    with `arguments`, JSON values, and requests call methods of the result. Under another interpreter,
    `python`, it sees `envgen` and the libraries there.
    """

    def __init__(
        self,
        source: str,
        opener: str,
        arguments: dict[str, Any],
        limits: Limits,
        python: str = sys.executable,
    ) -> None:
        self._arguments = [opener, json.dumps(arguments), str(limits.memory)]
        self.source, self.limits, self._lock, self._python = source, limits, threading.Lock(), python
        self.hash_seed = "0"
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def call(self, method: str, *arguments: Any) -> Any:
        """Return the result of a method, a JSON value; GeneratorError names source and method if it fails.
        ConfigError if the generator cannot be loaded."""
        request = json.dumps([method, *arguments]).encode() + b"\n"
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            try:
                return self._exchange(request, "seconds")
            except GeneratorError as error:
                raise GeneratorError(f"{self.source}: {method}: {error}") from None

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def _start(self) -> None:
        self._stop()
        self._socket, child_end = socket.socketpair()
        foreign = self._python != sys.executable
        paths = own_modules_first() | ({"PYTHONPATH": linked_packages("envgen")} if foreign else {})
        with child_end:
            self._process = start_process(
                [self._python, "-m", "envgen.module.worker", str(child_end.fileno()), *self._arguments],
                env=os.environ | paths | _ENVIRONMENT | {"PYTHONHASHSEED": self.hash_seed},
                pass_fds=[child_end.fileno()],
                **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL),
            )
        try:
            self._exchange(b"", "start_seconds")
        except GeneratorError as error:
            self._stop()
            raise ConfigError(f"{self.source}: cannot be loaded: {error}") from None

    def _exchange(self, request: bytes, limit: str) -> Any:
        """Send a request and return the value of its reply; GeneratorError after `limit` at most."""
        seconds: float = getattr(self.limits, limit)
        assert self._socket
        assert self._process
        deadline, reply = time.monotonic() + seconds, bytearray()
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(request)
            while not reply.endswith(b"\n"):
                self._socket.settimeout(max(deadline - time.monotonic(), 1e-3))
                part = self._socket.recv(1 << 16)
                if not part or len(reply) > MAX_REPLY:
                    raise EOFError
                reply += part
            kind, value = json.loads(reply)
        except TimeoutError:
            remedy = f"raise environment.options.limits.{limit} if it needs more"
            problem = f"gave no answer within {seconds:g} s and was killed; {remedy}"
        except (OSError, EOFError):
            try:
                problem = f"its process {ended(self._process.wait(1))}"
            except subprocess.TimeoutExpired:
                problem = "closed or flooded the socket of its replies, and was killed"
        except (ValueError, TypeError):
            problem = "wrote into the socket of its replies, and was killed"
        else:
            if kind == "error":
                raise GeneratorError(value)
            return value
        self._stop()
        raise GeneratorError(problem)

    def _stop(self) -> None:
        if self._socket:
            self._socket.close()
        if self._process:
            with suppress(ProcessLookupError):  # the group: also the processes that it started
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = self._socket = None


def _serve(descriptor: str, opener: str, arguments: str, memory: str) -> None:
    """Open the generator in this child process, then answer requests until the socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets Ctrl-C too, and ends this process
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection, generators = socket.socket(fileno=int(descriptor)), []

    def open_generator() -> None:
        generators.append(pkgutil.resolve_name(opener)(**json.loads(arguments)))

    connection.sendall(_reply(open_generator))
    for line in connection.makefile("rb") if generators else ():
        method, *values = json.loads(line)
        connection.sendall(_reply(getattr(generators[0], method), *values))


def _reply(function: Any, *arguments: Any) -> bytes:
    """Return `["value", result]` or `["error", message]` as a line of JSON."""
    try:
        reply = json.dumps(["value", function(*arguments)], allow_nan=False).encode()
        if len(reply) > MAX_REPLY:
            raise ValueError(f"a result of {len(reply):,} bytes; at most {MAX_REPLY:,} are allowed")
    except BaseException as error:
        libraries = (f"{Path(__file__).parents[1]}{os.sep}", sys.prefix, sys.base_prefix, "<")
        message = f"{type(error).__name__}: {error}"[:MESSAGE_CHARACTERS]
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if not frame.filename.startswith(libraries):
                message += f" ({Path(frame.filename).name}, line {frame.lineno}, in {frame.name})"
                break
        reply = json.dumps(["error", message]).encode()
    return reply + b"\n"


if __name__ == "__main__":
    _serve(*sys.argv[1:])
