"""The child of `envgen.worker`: `python -m envgen.worker_child PIPE MODULE:FUNCTION ARGUMENTS MEMORY`."""

import importlib
import json
import resource
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

ERROR_CHARACTERS = 500


def main(pipe: str, opener: str, arguments: str, memory: str) -> None:
    """Open the generator, then answer requests until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    connection = Connection(int(pipe))
    found: list[Any] = []

    def opened() -> None:
        module, name = opener.split(":")
        found.append(getattr(importlib.import_module(module), name)(**json.loads(arguments)))

    connection.send_bytes(_reply(opened))
    while found:
        try:
            method, *values = json.loads(connection.recv_bytes())
        except EOFError:
            return
        connection.send_bytes(_reply(getattr(found[0], method), *values))


def _reply(function: Callable[..., Any], *arguments: Any) -> bytes:
    """`["value", ...]` or `["error", ...]` as JSON: whatever a generator raises is a reply."""
    try:
        return json.dumps(["value", function(*arguments)], allow_nan=False).encode()
    except BaseException as error:
        return json.dumps(["error", f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]]).encode()


if __name__ == "__main__":
    main(*sys.argv[1:])
