"""A child that has done its imports before it is needed: `python -m policy.warm MODULE IMPORT ...`.

It waits for one line of JSON on standard input, an `Order`, and then is what `python -m MODULE ARGUMENTS`
would have been. End of input instead of a line ends it.
"""

import importlib
import json
import os
import runpy
import sys
from typing import TypedDict

IMPORTS = {
    "policy.grpo.training": ("trl.trainer.grpo_trainer", "policy.grpo.saving", "policy.grpo.rewards"),
    "policy.chat.engine_child": ("policy.chat.transformers_model", "xgrammar.contrib.hf"),
}
"""Module -> what takes most of the time until it begins."""


class Order(TypedDict):
    """What a waiting child is told."""

    arguments: list[str]
    errors: str | None
    """A file that standard error is appended to from now on; None: it goes where standard output does."""


def main(module: str, imports: list[str]) -> None:
    """Import, wait, run."""
    for name in imports:
        importlib.import_module(name)
    line = _line(0)
    if not line:
        return
    order: Order = json.loads(line)
    if order["errors"] is None:
        os.dup2(1, 2)
    else:
        os.dup2(os.open(order["errors"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
    sys.argv = [module, *order["arguments"]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _line(descriptor: int) -> bytes:
    """The first line and no byte more: what follows is for the module."""
    line = b""
    while byte := os.read(descriptor, 1):
        if byte == b"\n":
            return line
        line += byte
    return b""


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
