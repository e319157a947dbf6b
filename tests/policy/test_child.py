"""Children: their output, their ends, and what they leave behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from envgen.errors import ChildError
from policy.child import TAIL_LINES, run_child, start_child, stop_child, tell

SLEEPS = """
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("pids", "w").write(f"{os.getpid()} {grandchild.pid} .")
print("progress {}", flush=True)
time.sleep(600)
"""


class Spec(BaseModel):
    steps: int = 0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, where modules are imported from."""
    monkeypatch.chdir(tmp_path)
    paths = tmp_path, Path(__file__).parent, Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    return tmp_path


def write(folder: Path, code: str, module: str = "child") -> None:
    """Write a real module, which is started as the training is."""
    (folder / f"{module}.py").write_text(f"import json, os, signal, subprocess, sys, time\n{code}")


def run(folder: Path, code: str, progress: Callable = lambda entry: None, **environment: str) -> str:
    """The log of a child with this code."""
    write(folder, code)
    spec, log = folder / "work" / "spec.json", folder / "logs" / "child.log"
    run_child("child", Spec(steps=3), spec, log, progress, environment=environment)
    return log.read_text()


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def test_a_folder_of_the_user_named_as_one_of_ours_does_no_harm(folder: Path):
    """Neither in the working directory nor on PYTHONPATH."""
    for room in ("envgen", "policy"):
        (folder / room).mkdir()
        (folder / room / "__init__.py").write_text("raise RuntimeError('another package')")
    assert "fine" in run(folder, "import policy.chat.contract; print('fine')")


def test_progress_lines_arrive_as_dicts_and_the_rest_is_the_log(folder: Path):
    works = """
print("starting", flush=True)
for step in range(json.load(open(sys.argv[1]))["steps"]):
    print("progress " + json.dumps({"step": step + 1}))
    print(f"line {step}", file=sys.stderr)
print("no newline at the end", end="")
"""
    seen: list[dict] = []
    log = run(folder, works, seen.append)
    assert seen == [{"step": step} for step in (1, 2, 3)]
    assert sorted(log.splitlines()) == ["line 0", "line 1", "line 2", "no newline at the end", "starting"]
    assert run(folder, works).count("starting") == 2, "the earlier log is kept"


def test_a_failure_carries_the_last_lines_of_the_output(folder: Path):
    with pytest.raises(ChildError) as failed:
        run(folder, "for number in range(40): print(f'line {number}')\nprint('progress {}')\nsys.exit(3)")
    head, *tail = str(failed.value).splitlines()
    log = folder / "logs" / "child.log"
    assert head == f"child ended with exit code 3; its output is in {log}. Last lines:"
    assert tail == [f"line {number}" for number in range(40 - TAIL_LINES, 40)]
    assert len(log.read_text().splitlines()) == 40


KILLED = "os.kill(os.getpid(), signal.SIGKILL)"
TELLS = "print('lines'); print('progress ' + json.dumps({'problem': 'no memory; buy some'})); sys.exit(1)"


@pytest.mark.parametrize(
    ("code", "how", "end"),
    [
        (f"print('before', flush=True); {KILLED}", "child was killed by SIGKILL .often for lack", "before"),
        (KILLED, "lack of memory; close other programs", "It wrote nothing before"),
        ("import missing_module", "No module named", ""),
        (TELLS, "^no memory; buy some; its output is in ", "child.log"),
    ],
)
def test_a_failure_says_how_and_ends_with_the_last_words_or_a_remedy(folder: Path, code, how: str, end: str):
    with pytest.raises(ChildError, match=how) as failed:
        run(folder, code)
    assert str(failed.value).endswith(end)
    assert ("Last lines" in str(failed.value)) == (code not in (KILLED, TELLS))


JOB = [
    *(f"{job}_{name}" for job in ("OMPI_COMM_WORLD", "MV2_COMM_WORLD") for name in ("RANK", "SIZE")),
    *("OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", "ACCELERATE_USE_FSDP"),
]
"""Variables by which accelerate takes a process for one of several."""


def test_a_child_has_a_group_and_an_environment_of_its_own_unless_one_says_otherwise(folder, monkeypatch):
    """It joins no other job, reads files as UTF-8, and its threads give up their core."""
    tells = """
import locale
names = (*JOB, "PYTHONUNBUFFERED", "OMP_WAIT_POLICY", "GIVEN")
entry = {name: os.environ[name] for name in names if name in os.environ}
own = os.getpgid(0) == os.getpid()
entry |= {"encoding": locale.getpreferredencoding().lower(), "own group": own, "arguments": len(sys.argv)}
print("progress " + json.dumps(entry))
"""
    seen: list[dict] = []
    tells, job = f"JOB = {JOB}\n{tells}", dict.fromkeys(JOB, "1")
    for name, value in {**job, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    run(folder, tells, seen.append)
    expected = {"PYTHONUNBUFFERED": "1", "encoding": "utf-8", "own group": True, "arguments": 2}
    assert seen == [expected | {"OMP_WAIT_POLICY": "PASSIVE"}]
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    run(folder, tells, seen.append, GIVEN="this")
    assert seen[1] == expected | {"OMP_WAIT_POLICY": "ACTIVE", "GIVEN": "this"}


def test_an_error_of_the_listener_ends_the_child_and_all_that_it_started(folder: Path):
    def progress(entry: dict) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, SLEEPS, progress)
    child, grandchild = map(int, (folder / "pids").read_text().split()[:2])
    assert not running(child)
    assert not running(grandchild)


@pytest.mark.timeout(60)
def test_workers_that_outlive_a_killed_child_hold_nothing_up_and_are_ended(folder: Path):
    pooled = f"""
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(abs, range(8)))
        open("pids", "w").write(" ".join(map(str, pool._processes)))
        {KILLED}
"""
    with pytest.raises(ChildError, match="killed by SIGKILL"):
        run(folder, pooled)
    workers = list(map(int, (folder / "pids").read_text().split()))
    assert len(workers) == 2
    assert not any(map(running, workers))


def test_what_an_ended_child_has_left_is_ended_too(folder: Path):
    write(folder, "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid)")
    child = start_child("child", [], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    left = int(child.stdout.readline())
    child.wait()
    assert running(left)
    stop_child(child)
    assert not running(left)
    child.stdout.close()


def test_a_progress_line_is_a_single_write_and_what_is_no_object_or_no_text_does_no_harm(folder, monkeypatch):
    with monkeypatch.context() as patch:
        written = []
        patch.setattr(sys, "stdout", SimpleNamespace(write=written.append, flush=lambda: None))
        tell({"step": 1})
        assert written == ['progress {"step": 1}\n']
    seen: list[dict] = []
    mixed = b'\xff\xfe not text\nprogress {"a": another thread spoke\nprogress 5\nprogress {"a": 1}\n'
    first, *log = run(folder, f"sys.stdout.buffer.write({mixed!r})", seen.append).splitlines()
    assert seen == [{"a": 1}]
    assert "not text" in first
    assert log == ['progress {"a": another thread spoke', "progress 5"]


def test_a_child_dies_with_its_parent(folder: Path):
    write(folder, "from test_child import SLEEPS, Path, run\nrun(Path.cwd(), SLEEPS)", "parent")
    parent, pids = subprocess.Popen([sys.executable, "-m", "parent"]), folder / "pids"
    wait_until(lambda: parent.poll() is not None or (pids.exists() and pids.read_text().endswith(".")))
    child, grandchild = map(int, pids.read_text().split()[:2])
    assert running(child)
    parent.send_signal(signal.SIGKILL)
    assert parent.wait() == -signal.SIGKILL
    wait_until(lambda: not running(child))
    os.kill(grandchild, signal.SIGKILL)  # the child had no time to end it


def test_stopping_ends_a_child_that_ignores_the_first_request(folder: Path):
    ignores = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    write(folder, f"{ignores}; print('progress {{}}', flush=True); time.sleep(600)")
    child = start_child("child", [], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == "progress {}\n"
        stop_child(child, patience=0.2)
    assert child.returncode == -signal.SIGKILL
    stop_child(child)
    assert child.returncode == -signal.SIGKILL
