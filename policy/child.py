"""Child processes: work that needs torch runs in its own interpreter, streams its output and dies with its parent."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from envgen.errors import ChildError
from envgen.files import write_json
from envgen.processes import die_with_parent

PROGRESS = "progress "
YIELDING = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads of a parallel loop that wait for each other give up their core, unless the user says otherwise: on two cores beside a busy
process a training step took 1.8 times as long instead of 2.8 times, generation 1.2 times instead of 3.7 times; alone it costs a tenth of generation."""
TAIL_LINES = 15


_LAUNCH = "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
"""Finds envwright behind all else that an interpreter has: beside envwright may lie libraries of other versions."""


def start_child(
    module: str, arguments: list[str], added: Mapping[str, str] | None = None, /, *, python: str = sys.executable, **options: Any
) -> subprocess.Popen:
    """Start `python -m module arguments` in its own process group; it is killed if this process dies. `added` goes into its environment.

    Another interpreter than this one sees envwright and its own libraries.
    """
    environment = {**YIELDING, **os.environ, "PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_PROGRESS_BARS": "1", **(added or {})}
    preexec = partial(die_with_parent, os.getpid()) if sys.platform == "linux" else None
    command = [python, "-m", module]
    if python != sys.executable:
        environment["PYTHONPATH"] = ""
        command = [python, "-P", "-c", _LAUNCH, str(Path(__file__).parents[1]), module]
    return subprocess.Popen([*command, *arguments], env=environment, preexec_fn=preexec, process_group=0, **options)


def tell(entry: dict) -> None:
    """Tell the parent something, as a progress line of `run_child`."""
    # One write with the newline in it: what another thread writes cannot come in between.
    sys.stdout.write(PROGRESS + json.dumps(entry) + "\n")
    sys.stdout.flush()


def run_child(
    module: str,
    spec: BaseModel,
    spec_path: Path,
    log_path: Path,
    progress: Callable[[dict], None],
    *,
    launcher: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    started: Callable[[subprocess.Popen], None] | None = None,
) -> None:
    """Run a child on a JSON spec to its end. Its output goes to `log_path`, its progress lines to `progress` as dicts.

    `launcher` is a module that starts others, with its options (`accelerate.commands.launch`, `--config_file`, ...).
    The calling thread has to live as long as the child. What the child leaves behind in its process group ends with it.
    `environment` adds to that of this process; `started` gets the child, so that another thread can stop it. Raises ChildError
    with the last lines of the output if it fails.
    """
    write_json(spec_path, spec)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    first, *arguments = [*launcher, "-m", module, str(spec_path)] if launcher else [module, str(spec_path)]
    child = start_child(first, arguments, environment, **streams)
    assert child.stdout is not None

    def watch() -> None:
        child.wait()
        # What it leaves behind may hold the pipe open, whose end is awaited below.
        _signal(child, signal.SIGKILL)

    watcher = threading.Thread(target=watch, name=f"end of {module}", daemon=True)
    watcher.start()
    try:
        if started:
            started(child)
        with open(log_path, "a", encoding="utf-8") as log:
            for line in child.stdout:
                entry = _entry(line)
                if entry is not None:
                    progress(entry)
                else:
                    log.write(line)
                    log.flush()
                    tail.append(line.rstrip())
        code = child.wait()
    finally:
        stop_child(child)
        watcher.join()
    if code:
        reason = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise ChildError(f"{module} {reason}; its output is in {log_path}. Last lines:\n" + "\n".join(tail))


def stop_child(child: subprocess.Popen, patience: float = 10) -> None:
    """End a child, by force after `patience` seconds, and what is left of its process group, also if the child has ended."""
    if child.poll() is None:
        _signal(child, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(patience)
    _signal(child, signal.SIGKILL)
    child.wait()


def _signal(child: subprocess.Popen, number: signal.Signals) -> None:
    """Send a signal to the process group of a child, if anything is left of it."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, number)


def _entry(line: str) -> dict | None:
    """What a progress line says; None if the line is log text, as is one that something else wrote into."""
    if not line.startswith(PROGRESS):
        return None
    try:
        found = json.loads(line[len(PROGRESS) :])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
