"""`envwright mapf render`: a plan, or an answer and where it fails, as a picture."""

import subprocess
from pathlib import Path

import pytest
from support.boards import board
from support.envwright_command import ENVWRIGHT, environment

from envgen.dataset import read_dataset

CLASH = "I think:\nAgent 0: (0,1) (1,1)\nAgent 1: (1,0) (1,1)\n"


@pytest.fixture(autouse=True)
def _boards(tmp_path: Path) -> None:
    for name in ("crossing", "ring-order"):
        (tmp_path / f"{name}.jsonl").write_text(board(name).model_dump_json())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "optimal plan: sum of costs 5, makespan 3"),
        (CLASH, "conflict: agents 0 and 1 are both in (1,1) after step 1"),
        ("Agent 0: (0,1)\nAgent 1: (1,0)", "goal not reached: agent 0 ends at (0,1)"),
        ("no plan (sorry)", "parse error: no line of the form"),
    ],
)
def test_a_plan_and_a_failure_are_drawn(envwright, tmp_path: Path, answer: str | None, message: str):
    (tmp_path / "answer.txt").write_text(answer or "")
    options = [] if answer is None else ["--answer", "answer.txt"]
    done = envwright("mapf", "render", "crossing.jsonl", "-o", "plan.svg", *options)
    assert done.code == 0, done.err
    assert done.out.startswith(message)
    assert done.out.endswith(" -> plan.svg\n")
    kind = message.partition(":")[0]
    drawn = {"optimal plan": "step 3 of 3", "parse error": "2 agents at their starts"}
    assert drawn.get(kind, kind) in (tmp_path / "plan.svg").read_text()


def test_a_data_set_is_drawn_by_id(envwright, tmp_path: Path):
    (tmp_path / "config.yaml").write_text("sizes: {3: {data_ratio: 1, hole_ratio: 0.2, wait_ratio: 0.5}}")
    assert envwright("mapf", "generate", "config.yaml", "--count", "4", "-o", "data.parquet").code == 0
    chosen = read_dataset(tmp_path / "data.parquet")[3].problem
    assert envwright("mapf", "render", "data.parquet", "--id", chosen.id, "-o", "one.svg").code == 0
    assert "3x3 board, replay" in (tmp_path / "one.svg").read_text()


def test_what_cannot_be_drawn_is_refused_and_nothing_is_written(refused, tmp_path: Path):
    for arguments, complaint in [
        (["crossing.jsonl", "-o", "plan.png"], "-o plan.png: render writes SVG"),
        (["crossing.jsonl", "-o", "plan.svg", "--answer", "nowhere.txt"], "nowhere.txt: no such file"),
        (["ring-order.jsonl", "-o", "plan.svg"], "ring-order.jsonl: problem 'ring-order' is not solvable"),
        (["crossing.jsonl", "--id", "x", "-o", "plan.svg"], "crossing.jsonl: 0 problems with the id 'x'"),
    ]:
        refused(["mapf", "render", *arguments], f"error: {complaint}")
    assert not list(tmp_path.glob("*.svg"))


def test_before_the_solver_is_compiled_a_line_says_so(tmp_path: Path):
    command = [*ENVWRIGHT, "mapf", "render", "crossing.jsonl", "-o", "plan.svg"]
    variables = environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, env=variables, **pipes) as child:
        first = child.stderr.readline()
        child.kill()
    assert first == "compiling the solver for this machine, once; this takes about a minute\n"
