import json
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

# Children of several temperaments; real modules, started as the training is.
MODULES = {
    "works": """
import json, sys
spec = json.load(open(sys.argv[1]))
print("starting", flush=True)
for step in range(spec["steps"]):
    print("progress " + json.dumps({"step": step + 1, "steps": spec["steps"]}))
    print(f"line {step}", file=sys.stderr)
print("no newline at the end", end="")
""",
    "fails": """
import sys
for number in range(40):
    print(f"line {number}")
print("progress {}")
sys.exit(3)
""",
    "raises": "raise RuntimeError('out of memory, or so')",
    "dies": "import os, signal; print('before', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
    "sleeps": """
import json, os, pathlib, subprocess, sys, time
spec = json.load(open(sys.argv[1]))
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(spec["pid_file"]).write_text(f"{os.getpid()} {grandchild.pid} .")
print("progress {}", flush=True)
time.sleep(600)
""",
    "pooled": """
import json, os, pathlib, signal, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(abs, range(8)))
        pids = [str(pid) for pid in pool._processes]
        pathlib.Path(json.load(open(sys.argv[1]))["pid_file"]).write_text(" ".join(pids))
        os.kill(os.getpid(), signal.SIGKILL)
""",
    "stubborn": """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("progress {}", flush=True)
time.sleep(600)
""",
    "parent": """
import sys
from pathlib import Path
from policy.child import run_child
from test_child import Spec
folder = Path(sys.argv[1])
run_child("sleeps", Spec(pid_file=folder / "pids"), folder / "spec.json", folder / "log", lambda entry: None)
""",
    "leaves": """
import subprocess, sys
print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid)
""",
    "mixes": """
import sys
sys.stdout.buffer.write(b'\\xff\\xfe not text\\n')
print('progress {"a": another thread spoke')
print('progress 5')
print('progress {"a": 1}')
""",
    "silent": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "tells": """
import json, locale, os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "PYTHONUNBUFFERED", "OMP_WAIT_POLICY", "GIVEN")
entry = {name: os.environ[name] for name in names if name in os.environ}
own = os.getpgid(0) == os.getpid()
entry |= {"encoding": locale.getpreferredencoding().lower(), "own group": own, "arguments": len(sys.argv)}
print("progress " + json.dumps(entry))
""",
}


class Spec(BaseModel):
    steps: int = 0
    pid_file: Path = Path()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    for name, code in MODULES.items():
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(__file__).parent)]))
    return tmp_path


def run(
    folder: Path, module: str, progress: Callable[[dict], None] = lambda entry: None, **fields: object
) -> None:
    spec, log_path = Spec.model_validate(fields), folder / "logs" / "child.log"
    run_child(module, spec, folder / "work" / "spec.json", log_path, progress)


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def test_a_folder_of_the_user_named_as_one_of_ours_does_no_harm(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    """Neither in the working directory nor on PYTHONPATH."""
    theirs = tmp_path_factory.mktemp("theirs")
    for room in ("envgen", "policy"):
        (theirs / room).mkdir()
        (theirs / room / "__init__.py").write_text("raise RuntimeError('another package')")
    monkeypatch.chdir(theirs)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(theirs), os.environ["PYTHONPATH"]]))
    (folder / "imports.py").write_text("import policy.chat.contract; print('fine')")
    run(folder, "imports")
    assert "fine" in (folder / "logs" / "child.log").read_text()


def test_progress_lines_arrive_as_dicts_and_the_rest_is_the_log(folder: Path):
    seen: list[dict] = []
    run(folder, "works", seen.append, steps=3)
    assert seen == [{"step": step, "steps": 3} for step in (1, 2, 3)]
    log = (folder / "logs" / "child.log").read_text()
    assert sorted(log.splitlines()) == ["line 0", "line 1", "line 2", "no newline at the end", "starting"]
    assert json.loads((folder / "work" / "spec.json").read_text())["steps"] == 3
    run(folder, "works", steps=0)
    assert (folder / "logs" / "child.log").read_text().count("starting") == 2, "the earlier log is kept"


def test_a_failure_carries_the_last_lines_of_the_output(folder: Path):
    with pytest.raises(ChildError) as failed:
        run(folder, "fails")
    head, *tail = str(failed.value).splitlines()
    log = folder / "logs" / "child.log"
    assert head == f"fails ended with exit code 3; its output is in {log}. Last lines:"
    assert tail == [f"line {number}" for number in range(40 - TAIL_LINES, 40)]
    assert len(log.read_text().splitlines()) == 40


@pytest.mark.parametrize(
    ("module", "how", "end"),
    [
        ("raises", "raises ended with exit code 1", "RuntimeError: out of memory, or so"),
        ("dies", "dies was killed by SIGKILL .often for lack of memory; close other programs", "before"),
        ("silent", "silent was killed by SIGKILL .often for lack of memory", "It wrote nothing before"),
        ("missing_module", "No module named", ""),
    ],
)
def test_a_failure_says_how_and_ends_with_the_last_words(folder: Path, module: str, how: str, end: str):
    with pytest.raises(ChildError, match=how) as failed:
        run(folder, module)
    assert str(failed.value).endswith(end)
    assert ("Last lines" in str(failed.value)) == (module != "silent")


def test_a_child_has_a_group_and_an_environment_of_its_own_unless_the_user_says_otherwise(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """It joins no other job, reads files as UTF-8, and its threads give up their core."""
    seen: list[dict] = []
    job = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LC_ALL": "POSIX", "PYTHONUTF8": "0"}
    for name, value in (job | {"PYTHONCOERCECLOCALE": "0"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    run(folder, "tells", seen.append)
    expected = {"PYTHONUNBUFFERED": "1", "encoding": "utf-8", "own group": True, "arguments": 2}
    assert seen == [expected | {"OMP_WAIT_POLICY": "PASSIVE"}]
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    given = {"GIVEN": "this"}
    run_child("tells", Spec(), folder / "spec.json", folder / "log", seen.append, environment=given)
    assert seen[1] == expected | {"OMP_WAIT_POLICY": "ACTIVE"} | given


def test_an_error_of_the_listener_ends_the_child_and_all_that_it_started(folder: Path):
    def progress(entry: dict) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, "sleeps", progress, pid_file=folder / "pids")
    child, grandchild = map(int, (folder / "pids").read_text().split()[:2])
    assert not running(child)
    assert not running(grandchild)


@pytest.mark.timeout(60)
def test_workers_that_outlive_a_killed_child_hold_nothing_up_and_are_ended(folder: Path):
    with pytest.raises(ChildError, match="killed by SIGKILL"):
        run(folder, "pooled", pid_file=folder / "pids")
    workers = list(map(int, (folder / "pids").read_text().split()))
    assert len(workers) == 2
    assert not any(map(running, workers))


def test_what_an_ended_child_has_left_is_ended_too(folder: Path):
    child = start_child("leaves", [], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    left = int(child.stdout.readline())
    child.wait()
    assert running(left)
    stop_child(child)
    assert not running(left)
    child.stdout.close()


def test_a_progress_line_is_a_single_write_and_what_is_no_object_or_no_text_does_no_harm(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        written = []
        patch.setattr(sys, "stdout", SimpleNamespace(write=written.append, flush=lambda: None))
        tell({"step": 1})
        assert written == ['progress {"step": 1}\n']
    seen: list[dict] = []
    run(folder, "mixes", seen.append)
    assert seen == [{"a": 1}]
    first, *log = (folder / "logs" / "child.log").read_text().splitlines()
    assert "not text" in first
    assert log == ['progress {"a": another thread spoke', "progress 5"]


def test_a_child_dies_with_its_parent(folder: Path):
    parent = subprocess.Popen([sys.executable, "-m", "parent", str(folder)], cwd=Path(__file__).parents[2])
    pids = folder / "pids"
    wait_until(lambda: parent.poll() is not None or (pids.exists() and pids.read_text().endswith(".")))
    child, grandchild = map(int, pids.read_text().split()[:2])
    assert running(child)
    parent.send_signal(signal.SIGKILL)
    assert parent.wait() == -signal.SIGKILL
    wait_until(lambda: not running(child))
    os.kill(grandchild, signal.SIGKILL)  # the child had no time to end it


def test_stopping_ends_a_child_that_ignores_the_first_request(folder: Path):
    child = start_child("stubborn", [], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == "progress {}\n"
        stop_child(child, patience=0.2)
    assert child.returncode == -signal.SIGKILL
    stop_child(child)
    assert child.returncode == -signal.SIGKILL
