"""A child process for generators that nobody here wrote: one that hangs, dies or prints does no harm.

The child has a fixed hash seed, a limit of memory, and no standard input or output. Requests and replies are
JSON over a pipe of its own; each reply has a deadline. It is a guard against mistakes, not a sandbox: the
generator runs with the rights of the user.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe
from typing import Any

from envgen.errors import ConfigError, EnvwrightError
from envgen.frozen import Frozen
from envgen.processes import die_with_parent, ended, own_modules_first

START_SECONDS = 120.0
"""For the imports of the generator."""
ENVIRONMENT = {
    # Sets of strings are iterated in one order, and no pool of threads takes memory or time.
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class GeneratorError(EnvwrightError):
    """A generator failed: it raised, died, was too slow, or returned what it must not."""


class Limits(Frozen):
    """What a generator may use."""

    seconds: float = 10.0
    """For one request."""
    batch_seconds: float = 300.0
    """For all answers that are judged in one call; those that are left could not be judged."""
    memory: int = 4 << 30
    """Bytes of address space."""


class Worker:
    """The process of one generator, started when it is needed and again after it was killed.

    `opener` is `module:function`; the child calls the function with `arguments`, JSON values, and requests
    are calls of the methods of what it returns. Threads may share it.
    """

    def __init__(self, opener: str, arguments: dict[str, Any], limits: Limits, hash_seed: int = 0) -> None:
        self._opener, self._arguments, self.limits = opener, arguments, limits
        self._environment = ENVIRONMENT | {"PYTHONHASHSEED": str(hash_seed)}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None

    def call(self, method: str, *arguments: Any) -> Any:
        """The result of a method, a JSON value; GeneratorError says why there is none.

        ConfigError if the generator cannot be loaded at all.
        """
        request = json.dumps([method, *arguments]).encode()
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert self._pipe is not None
            with suppress(OSError):  # it died; the reply says how
                self._pipe.send_bytes(request)
            return self._reply(self.limits.seconds)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def _start(self) -> None:
        self._stop()
        self._pipe, theirs = Pipe()
        environment = {**os.environ, **own_modules_first(), **self._environment}
        arguments = [
            str(theirs.fileno()),
            self._opener,
            json.dumps(self._arguments),
            str(self.limits.memory),
        ]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "envgen.worker_child", *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
        try:
            self._reply(START_SECONDS)
        except GeneratorError as error:
            self._stop()
            raise ConfigError(f"the generator cannot be loaded: {error}") from None

    def _reply(self, seconds: float) -> Any:
        assert self._pipe is not None
        assert self._process is not None
        try:
            if not self._pipe.poll(seconds):
                self._stop()
                raise GeneratorError(f"gave no answer within {seconds:g} s and was killed")
            kind, value = json.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            status = self._process.wait()
            self._stop()
            raise GeneratorError(f"its process {ended(status)}") from None
        except (ValueError, TypeError):
            self._stop()
            raise GeneratorError("wrote something of its own into the pipe of its replies") from None
        if kind == "error":
            raise GeneratorError(value)
        return value

    def _stop(self) -> None:
        if self._pipe:
            self._pipe.close()
        if self._process:
            with suppress(ProcessLookupError):  # with what it has started
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = self._pipe = None


def textual_identity(question: str) -> str:
    """The question without regard to white space: equal texts are equal, mirrored problems are not."""
    return " ".join(question.split())
