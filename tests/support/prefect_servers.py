"""Real servers for tests: a Prefect server of its own, and what it says; where vLLM is."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from sqlite3 import connect
from typing import Any

import psutil
import pytest
import urllib3
from filelock import FileLock
from urllib3.util import Retry, make_headers, parse_url

from envgen.processes import free_port


def vllm_or_skip() -> Path:
    """The interpreter that has vLLM: ENVWRIGHT_VLLM_PYTHON, this one, or that of `make vllm`. Without one the
    test is skipped, or fails if ENVWRIGHT_VLLM_REQUIRED."""
    beside = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"
    here = sys.executable if find_spec("vllm") else beside
    python = Path(os.environ.get("ENVWRIGHT_VLLM_PYTHON") or here)
    if not python.exists():
        message = f"no vLLM at {python}; install it with `make vllm`, or set ENVWRIGHT_VLLM_PYTHON"
        pytest.fail(message) if os.environ.get("ENVWRIGHT_VLLM_REQUIRED") else pytest.skip(message)
    return python


@contextmanager
def served(command: list[str], health: str, log: Path, **environment: str) -> Iterator[None]:
    """Run a server from when `health` answers until the end of the block."""
    with open(log, "w") as output:
        how = {"env": {**os.environ, **environment}, "cwd": log.parent, "stdout": output, "stderr": output}
        process = subprocess.Popen(command, **how)
    try:
        deadline = time.monotonic() + 180
        while not answers(health):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, f"{command} did not start: {log.read_text()}"
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait(30)


def prefect_tables(shared: Path) -> Path:
    """Prefect's database before its first run, made once for all workers of pytest."""
    home = shared / "tables"
    with FileLock(shared / "tables.lock"):
        if not (home / "made").exists():
            command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "--yes"]
            variables = {**os.environ, "PREFECT_HOME": str(home)}
            subprocess.run(command, env=variables, check=True, capture_output=True)
            (home / "made").touch()
    return home / "prefect.db"


def copy_tables(tables: Path, home: Path) -> None:
    """Copy the database into the home of a server; making one takes ten seconds."""
    home.mkdir()
    with closing(connect(tables)) as source, closing(connect(home / tables.name)) as copy:
        source.backup(copy)


@contextmanager
def prefect_server(folder: Path, tables: Path) -> Iterator[str]:
    """The API address of a Prefect server with a new database."""
    port = free_port()
    copy_tables(tables, folder / "prefect")
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    settings = {"PREFECT_HOME": str(folder / "prefect"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    with served(command, f"{url}/api/health", folder / "server.log", **settings, PREFECT_UI_URL=url):
        yield f"{url}/api"


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True


# Prefect answers 503 while its SQLite database is locked, before anything is changed; its own client asks
# again too.
_NONE = {"connect": 0, "read": 0, "redirect": 0}
_WHILE_LOCKED = Retry(
    **_NONE, status=10, status_forcelist=[503], allowed_methods=None, backoff_factor=0.2, backoff_max=10
)


def ask(url: str, body: dict | None = None, method: str = "POST") -> Any:
    """What a server answers, None for nothing; asked again while its database is locked. A `user:password@`
    in the address logs in."""
    # A kept connection may be one that the server, after five idle seconds, is closing at this moment.
    headers = make_headers(basic_auth=parse_url(url).auth) | {"Connection": "close"}
    sent = None if method == "GET" else body or {}
    answer = urllib3.request(method, url, json=sent, headers=headers, retries=_WHILE_LOCKED, timeout=60)
    assert answer.status < 300, f"{method} {url}: {answer.status} {answer.data.decode()}"
    return answer.json() if answer.data else None


def told(api: str, run: str, state: str) -> None:
    """Put a flow run into a state, as a worker would."""
    body = {"state": {"type": state, "name": state.capitalize()}, "force": True}
    ask(f"{api}/flow_runs/{run}/set_state", body)


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for a condition; AssertionError after that many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def flow_runs(api: str) -> list[dict]:
    return ask(f"{api}/flow_runs/filter")


def states(api: str) -> dict[str, str]:
    """Flow run -> type of its state."""
    return {run["name"]: run["state"]["type"] for run in flow_runs(api)}


def processes_with(**environment: str) -> list[str]:
    """Command lines of the processes that carry variables in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and environment.items() <= process.environ().items():
                found.append(f"{process.pid}: {' '.join(process.cmdline())}")
        except (psutil.Error, OSError):
            continue
    return found
