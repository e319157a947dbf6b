"""Child processes: work that needs torch runs in its own interpreter, streams its output and dies with its parent."""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from envgen.errors import ChildError
from envgen.files import write_json

PROGRESS = "progress "
TAIL_LINES = 15
_PR_SET_PDEATHSIG = 1


def start_child(module: str, arguments: list[str], added: Mapping[str, str] | None = None, /, **options: Any) -> subprocess.Popen:
    """Start `python -m module arguments` in its own process group; it is killed if this process dies. `added` goes into its environment."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_PROGRESS_BARS": "1", **(added or {})}
    libc = ctypes.CDLL(None, use_errno=True)

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    preexec = die_with_parent if sys.platform == "linux" else None
    return subprocess.Popen([sys.executable, "-m", module, *arguments], env=environment, preexec_fn=preexec, process_group=0, **options)


def run_child(
    module: str,
    spec: BaseModel,
    spec_path: Path,
    log_path: Path,
    progress: Callable[[dict], None],
    *,
    environment: Mapping[str, str] | None = None,
    started: Callable[[subprocess.Popen], None] | None = None,
) -> None:
    """Run a child on a JSON spec to its end. Its output goes to `log_path`, its progress lines to `progress` as dicts.

    The calling thread has to live as long as the child. `environment` adds to that of this process; `started` gets the child,
    so that another thread can stop it. Raises ChildError with the last lines of the output if it fails.
    """
    write_json(spec_path, spec)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    child = start_child(module, [str(spec_path)], environment, **streams)
    assert child.stdout is not None
    try:
        if started:
            started(child)
        with open(log_path, "a", encoding="utf-8") as log:
            for line in child.stdout:
                if line.startswith(PROGRESS):
                    progress(json.loads(line[len(PROGRESS) :]))
                else:
                    log.write(line)
                    log.flush()
                    tail.append(line.rstrip())
        code = child.wait()
    finally:
        stop_child(child)
    if code:
        reason = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise ChildError(f"{module} {reason}; its output is in {log_path}. Last lines:\n" + "\n".join(tail))


def stop_child(child: subprocess.Popen, patience: float = 10) -> None:
    """End a child and everything in its process group, if it still runs; by force after `patience` seconds."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGTERM)
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
