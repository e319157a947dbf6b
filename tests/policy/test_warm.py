"""Children that do their imports ahead: they end, log and answer as those that are started when they are
needed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from envgen.errors import ChildError
from policy import child as children
from policy.child import dismiss, run_child, start_piped, stop_child, warm_up
from policy.warm import IMPORTS

MODULES = {
    "slow_to_import": "import pathlib, os; pathlib.Path(os.environ['IMPORTED']).write_text(str(os.getpid()))",
    "echoes": """
import slow_to_import, sys
print("arguments", *sys.argv[1:], __name__, flush=True)
print("an error", file=sys.stderr, flush=True)
for line in sys.stdin:
    print("read", line.strip(), flush=True)
""",
    "looks_for_scipy": "import importlib.util; FOUND = importlib.util.find_spec('scipy') is not None",
    "uses_scipy": "import looks_for_scipy, scipy; print(looks_for_scipy.FOUND, scipy.__name__)",
    "fails": "import slow_to_import, sys; raise RuntimeError('as it does without imports ahead')",
}


class Nothing(BaseModel):
    pass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Iterator[Path]:
    for name, code in MODULES.items():
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("IMPORTED", str(tmp_path / "imported"))
    for module in ("echoes", "fails"):
        monkeypatch.setitem(IMPORTS, module, ("slow_to_import",))
    monkeypatch.setitem(IMPORTS, "uses_scipy", ("looks_for_scipy",))
    yield tmp_path
    dismiss()


def warmed(folder: Path, module: str) -> int:
    """The process that has done the imports of `module` and waits."""
    warm_up(module)
    return imported(folder)


def imported(folder: Path) -> int:
    """The process that has done its imports, once there is one."""
    while not (folder / "imported").exists() or not (folder / "imported").read_text():
        time.sleep(0.01)
    return int((folder / "imported").read_text())


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_the_child_that_waits_is_the_one_that_is_used_and_reads_all_of_its_input(folder: Path):
    pid = warmed(folder, "echoes")
    child = start_piped("echoes", ["a b", "--c"], errors=folder / "errors.log")
    assert child.pid == pid
    said, _ = child.communicate(b"one\ntwo\n", timeout=30)
    assert said.decode().splitlines() == ["arguments a b --c __main__", "read one", "read two"]
    assert (folder / "errors.log").read_text() == "an error\n"
    assert child.returncode == 0
    another = start_piped("echoes", [], errors=folder / "errors.log")
    assert another.pid != pid, "each is used once"
    another.communicate(timeout=30)


def test_without_a_file_errors_go_where_the_output_goes(folder: Path):
    warmed(folder, "echoes")
    child = start_piped("echoes", [])
    said, _ = child.communicate(timeout=30)
    assert said.decode().splitlines() == ["arguments __main__", "an error"]


def test_a_child_with_another_environment_is_another_one(folder: Path):
    pid = warmed(folder, "echoes")
    child = start_piped("echoes", [], {"GIVEN": "x"})
    assert child.pid != pid
    child.communicate(timeout=30)


def test_a_failure_says_the_same_as_without_imports_ahead(folder: Path):
    warmed(folder, "fails")
    with pytest.raises(ChildError, match="as it does without imports ahead"):
        run_child("fails", Nothing(), folder / "spec.json", folder / "log", lambda entry: None)


def test_imports_ahead_leave_out_what_only_slows_them_and_the_child_can_have_it_later(folder: Path):
    warm_up("uses_scipy")
    child = start_piped("uses_scipy", [])
    assert child.communicate(timeout=60)[0] == b"False scipy\n"


def test_one_that_was_killed_is_replaced(folder: Path):
    pid = warmed(folder, "echoes")
    os.kill(pid, signal.SIGKILL)
    while children._waiting and next(iter(children._waiting.values())).poll() is None:
        time.sleep(0.01)
    child = start_piped("echoes", [])
    assert child.communicate(timeout=30)[0].startswith(b"arguments")


def test_those_that_nobody_needed_end(folder: Path):
    pid = warmed(folder, "echoes")
    warm_up("echoes")
    assert len(children._waiting) == 1
    dismiss()
    assert gone(pid)


def test_it_dies_with_its_parent(folder: Path):
    code = """
import time
from policy.child import warm_up
from policy.warm import IMPORTS
IMPORTS["echoes"] = ("slow_to_import",)
warm_up("echoes")
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2], process_group=0)
    try:
        pid = imported(folder)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        while not gone(pid):
            time.sleep(0.01)
    finally:
        stop_child(parent)
