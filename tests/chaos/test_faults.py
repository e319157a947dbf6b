"""The tool that kills a run at each of its file operations: it hits each of them, notices what a run does
wrong, and finds nothing wrong with ours."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import faults
import pytest
from injection import Fault, Operation, forked, killed, recorded
from outcomes import RUN, Outcome
from replay import NAME

from envgen.files import write_json
from infra.runs.lease import exclusive
from infra.runs.steps import run_step

Body = Callable[[Path], None]


def every_operation(folder: Path) -> None:
    (folder / "new").mkdir()
    (folder / "new" / "file").write_text("text")
    os.truncate(folder / "new" / "file", 2)
    os.link(folder / "new" / "file", folder / "other")
    (folder / "way").symlink_to(folder / "other")
    (folder / "other").replace(folder / "last")
    (folder / "last").read_text()
    (folder / "last").unlink()
    (folder / "last").unlink(missing_ok=True)
    shutil.rmtree(folder / "new")


EVERY = [
    *(("make a folder", "new"), ("open to write", "new/file"), ("truncate", "new/file"), ("link", "other")),
    *(("link", "way"), ("rename", "last"), ("remove", "last"), ("remove", "new/file")),
    ("remove a folder", "new"),
]


def test_every_operation_that_changes_a_folder_is_counted(tmp_path: Path):
    folder, told = tmp_path / "folder", tmp_path / "told"
    folder.mkdir()

    def body() -> None:
        recorded(folder, told)
        every_operation(folder)
        (tmp_path / "elsewhere").write_text("")

    assert forked(body, tmp_path / "errors") == 0
    found = re.findall(r'\["(.+?)", "(.+?)"\]', told.read_text())
    assert found == EVERY


@pytest.mark.parametrize("number", range(1, len(EVERY) + 1))
def test_a_process_is_killed_before_an_operation_or_right_after_it(tmp_path: Path, number: int):
    def left(after: bool) -> set[str]:
        folder = tmp_path / str(after)
        folder.mkdir()

        def body() -> None:
            killed(folder, Fault(number, after), tmp_path / "told")
            every_operation(folder)

        assert forked(body, tmp_path / "errors") == faults.SIGKILL
        sizes = {path: path.lstat().st_size for path in folder.rglob("*")}
        return {f"{path.relative_to(folder)} {path.is_file() and sizes[path]}" for path in sizes}

    before, after = left(False), left(True)
    assert before != after
    assert ("new/file 0" in after) == (EVERY[number - 1] == ("open to write", "new/file"))


def step(run: Path, name: str, body: Body) -> None:
    run_step(run / "stage-00", name, {}, (f"{name}.json",), lambda: body(run / "stage-00" / f"{name}.json"))


def in_place(path: Path) -> None:
    if not path.exists():
        path.write_text("[1, 2]")


def its_own_rest(path: Path) -> None:
    path.with_name(f"rest-{uuid4().hex}").touch()
    write_json(path, [1, 2])


def good(path: Path) -> None:
    write_json(path, [1, 2])


def steps(run: Path) -> None:
    with exclusive(run):
        step(run, "gate", good)
        step(run, "choose", good)


def forgets(run: Path) -> None:
    with exclusive(run):
        (run / "stage-00" / ".steps" / "gate.json").unlink(missing_ok=True)
    steps(run)


def passes_over(run: Path) -> None:
    if (run / "stage-00").exists():
        with exclusive(run):
            step(run, "choose", good)
    else:
        steps(run)


def cannot_go_on(run: Path) -> None:
    run.mkdir()
    steps(run)


def writes_in_place(run: Path) -> None:
    with exclusive(run):
        step(run, "gate", in_place)


def leaves_files(run: Path) -> None:
    with exclusive(run):
        step(run, "gate", its_own_rest)


def outcomes_of(folder: Path, go: Body) -> list[Outcome]:
    (folder / "start").mkdir()
    scene = faults.made_scene(folder / "whole", folder / "start", lambda runs: go(runs / NAME))
    return [faults.attempt(scene, cell) for cell in faults.cells(RUN, scene)]


@pytest.mark.slow
def test_a_run_that_loses_nothing_is_good_wherever_it_is_killed(tmp_path: Path):
    found = outcomes_of(tmp_path, steps)
    assert [one for one in found if not one.good] == []
    assert len(found) > 20
    assert Operation("rename", f"{NAME}/stage-00/.steps/choose.json") in [one.cell.operation for one in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "wrong"),
    [
        (forgets, lambda one: one.repeated and "repeated stage-00/.steps/gate.json" in one.said),
        (passes_over, lambda one: one.lost and "no stage-00/.steps/gate.json" in one.said),
        (cannot_go_on, lambda one: not one.resumed and "FileExistsError" in one.said),
        (writes_in_place, lambda one: not one.equal and "other stage-00/.steps/gate.json" in one.said),
        (leaves_files, lambda one: not one.equal and "left stage-00/rest-" in one.said),
    ],
)
def test_what_a_run_does_wrong_is_noticed(tmp_path: Path, bad: Body, wrong: Callable[[Outcome], bool]):
    found = outcomes_of(tmp_path, bad)
    assert [one for one in found if not one.killed] == []
    assert any(wrong(one) for one in found)
    assert not any(wrong(one) and one.good for one in found)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_that_is_killed_at_some_of_its_operations_ends_as_if_it_had_not_been():
    arguments = ["--every", "20", "--stages", "1", "--no-training"]
    done = subprocess.run([sys.executable, faults.__file__, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, last = done.stdout.strip().splitlines()
    tried, *good, lost, repeated = map(int, re.findall(r"\d+", last))
    assert tried >= 12
    assert (good, lost, repeated) == ([tried] * 3, 0, 0)
