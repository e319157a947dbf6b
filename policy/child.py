"""Work that needs torch runs in child processes, which stream their output and die with their parent."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from envgen.errors import ChildError, ModelError
from envgen.files import write_json
from envgen.processes import ended, linked_packages, own_modules_first, start_process

PROGRESS = "progress "
YIELDING = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads of a parallel loop that wait for each other give up their core, unless the user says otherwise: on
two cores beside a busy process a training step took 1.8 times as long instead of 2.8 times, generation 1.2
times instead of 3.7 times; alone it costs a tenth of generation."""
TAIL_LINES = 15
_KILL_SECONDS = 5
"""Longest wait for a killed process group to be gone."""
VLLM_PYTHON = "ENVWRIGHT_VLLM_PYTHON"
PROBLEM = "problem"
"""Key of a progress entry with the reason why the child ends, and what to do."""
WARNING = "warning"
"""Key of a text that the parent logs."""
_JOB = re.compile(
    r"(LOCAL_)?(RANK|WORLD_SIZE)|(OMPI_COMM_WORLD|MV2_COMM_WORLD|PMI)_\w+|MPI_LOCALN?RANK(ID|S)"
    r"|ACCELERATE_USE_(FSDP|DEEPSPEED|MEGATRON_LM|PARALLELISM_CONFIG)"
)
"""Variables of a distributed job, which some containers set: a child would wait for the other processes."""
_NO_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "no available memory for the cache blocks",
    "free memory on device",
)
"""Words of PyTorch on GPU and CPU, the operating system, and vLLM."""


def start_child(
    module: str,
    arguments: list[str],
    added: Mapping[str, str] | None = None,
    /,
    *,
    python: str = sys.executable,
    **options: Any,
) -> subprocess.Popen:
    """Start `python -m module arguments` in its own process group; it is killed if this process dies. `added`
    goes into its environment. Another interpreter sees `envgen`, `policy` and its own libraries."""
    environment = {
        **YIELDING,
        **{name: value for name, value in os.environ.items() if not _JOB.fullmatch(name)},
        **own_modules_first(),
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",  # libraries read their text files in the encoding of the locale
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "DISABLE_MLFLOW_INTEGRATION": "TRUE",  # TRL imports it for its profiler, for two seconds
        **(added or {}),
    }
    if python != sys.executable:
        environment["PYTHONPATH"] = linked_packages("envgen", "policy")
    command = [python, "-m", module, *arguments]
    return start_process(command, env=environment, **options)


def vllm_python() -> str:
    """Return the path of a Python with vLLM: ENVWRIGHT_VLLM_PYTHON, this interpreter, or `.venv-vllm`;
    ModelError if there is none."""
    chosen, usual = os.environ.get(VLLM_PYTHON), Path(".venv-vllm") / "bin" / "python"
    if chosen and not os.access(chosen, os.X_OK):
        raise ModelError(f"{VLLM_PYTHON}: {chosen} is no interpreter; name one that has vLLM, or unset it")
    if not chosen and find_spec("vllm"):
        return sys.executable
    # `make vllm` installs it in the working directory or beside the project.
    for path in [chosen] if chosen else [Path.cwd() / usual, Path(__file__).parents[1] / usual]:
        if os.access(path, os.X_OK):
            return os.path.abspath(path)
    other = f"set {VLLM_PYTHON} to the python of an environment that has vLLM"
    without = "set engine.backend to transformers, trl.use_vllm to false"
    raise ModelError(f"vLLM is not installed; run `make vllm`, which makes {usual}, or {other}, or {without}")


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
    python: str = sys.executable,
    launcher: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a child on a JSON spec to its end; ChildError with its `PROBLEM`, or the last lines of its output.

    Output goes to `log_path`, progress lines to `progress` as dicts. `launcher` is a module that starts
    others, with its options (`accelerate.commands.launch`, `--config_file`, ...). `environment` adds to that
    of this process. The process group of the child ends with it."""
    write_json(spec_path, spec)
    log_path.parent.mkdir(parents=True, exist_ok=True)
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    problem = ""
    first, *arguments = [*launcher, "-m", module, str(spec_path)] if launcher else [module, str(spec_path)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    child = start_child(first, arguments, environment, python=python, **pipes)
    assert child.stdout is not None
    output = io.TextIOWrapper(child.stdout, encoding="utf-8", errors="replace")

    def watch() -> None:
        child.wait()
        # What it leaves behind may hold the pipe open, whose end is awaited below.
        _signal(child, signal.SIGKILL)

    watcher = threading.Thread(target=watch, name=f"end of {module}", daemon=True)
    watcher.start()
    try:
        with open(log_path, "a", encoding="utf-8") as log:
            for line in output:
                entry = _entry(line)
                if entry is None:
                    log.write(line)
                    log.flush()
                    tail.append(line.rstrip())
                elif PROBLEM in entry:
                    problem = entry[PROBLEM]
                else:
                    progress(entry)
        code = child.wait()
    finally:
        stop_child(child)
        watcher.join()
    if code and problem:
        raise ChildError(f"{problem}; its output is in {log_path}")
    if code:
        last = "Last lines:\n" + "\n".join(tail) if tail else "It wrote nothing before"
        raise ChildError(f"{module} {ended(code)}; its output is in {log_path}. {last}")


def stop_child(child: subprocess.Popen, patience: float = 10) -> None:
    """End a child, by force after `patience` seconds, and its process group, also if the child has ended;
    wait until the group has given its memory back, unless a process is stuck in the kernel."""
    if child.poll() is None:
        _signal(child, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            child.wait(patience)
    _signal(child, signal.SIGKILL)
    child.wait()
    deadline = time.monotonic() + _KILL_SECONDS
    while _signal(child, 0) and time.monotonic() < deadline:
        time.sleep(0.02)


def _signal(child: subprocess.Popen, number: int) -> bool:
    """Send a signal to the process group of a child; return whether anything is left of it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
        return True
    return False


def _entry(line: str) -> dict | None:
    """What a progress line says; None if the line is log text, as is one that something else wrote into."""
    if not line.startswith(PROGRESS):
        return None
    with suppress(ValueError):
        entry = json.loads(line.removeprefix(PROGRESS))
        return entry if isinstance(entry, dict) else None
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return any(words in str(error).lower() for words in _NO_MEMORY)
