"""A child that has done its imports before it is needed: `python -m policy.warm MODULE IMPORT ...`.

It waits for one line of JSON on standard input, `{"arguments": [...], "errors": FILE or null}`, and then is
what `python -m MODULE ARGUMENTS` would have been, with standard error appended to FILE, or going where
standard output does. End of input instead of a line ends it.
"""

import importlib
import json
import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager

IMPORTS = {
    "policy.grpo.training": ("trl.trainer.grpo_trainer", "policy.grpo.saving", "policy.grpo.rewards"),
    "policy.chat.transformers_child": ("policy.chat.transformers_model", "xgrammar.contrib.hf"),
}
"""Module -> what takes most of the time until it begins."""
UNUSED = ("mlflow", "scipy", "sklearn")
"""What transformers and TRL import wherever it is installed, for what is not used here; the imports of the
trainer take 8 s of a core without them instead of 10.4, those of the engine 5.7 instead of 7.9."""


def main(module: str, imports: list[str]) -> None:
    """Import, wait, run."""
    with hidden(UNUSED):
        for name in imports:
            importlib.import_module(name)
    # Unbuffered, so that what follows the line is left for the module.
    with open(0, "rb", buffering=0, closefd=False) as standard_input:
        line = standard_input.readline()
    if not line.endswith(b"\n"):
        return
    order = json.loads(line)
    if order["errors"] is None:
        os.dup2(1, 2)
    else:
        os.dup2(os.open(order["errors"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
    sys.argv = [module, *order["arguments"]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


@contextmanager
def hidden(packages: tuple[str, ...]) -> Iterator[None]:
    """Meanwhile, packages that were not imported yet cannot be, as if they were not installed."""
    names = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(names))  # pyright: ignore[reportCallIssue, reportArgumentType]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
