"""`envwright render`: a plan, or an answer and where it fails, as a picture."""

import subprocess
from pathlib import Path

from support.envwright_command import ENVWRIGHT, environment

from envgen.dataset import read_dataset


def test_a_plan_and_a_failure_are_drawn_moving_or_still(envwright, tmp_path: Path):
    (tmp_path / "clash").write_text("I think:\nAgent 0: (0,1) (1,1)\nAgent 1: (1,0) (1,1)\n")
    plan, words = "optimal plan: sum of costs 5, makespan 3", "parse error: no line of the form"
    clash = "conflict in step 1: agents 0 and 1 are both in (1,1) after step 1"
    for output, answer, said in [
        ("plan.svg", None, plan),
        ("plan.png", None, plan),
        ("clash.svg", "clash", clash),
        ("clash.png", (tmp_path / "clash").read_text(), clash),
        ("words.png", "no plan (sorry)", words),
        ("words.svg", "no plan (sorry)", words),
    ]:
        done = envwright(
            "render", "crossing", "-o", output, *([] if answer is None else ["--answer", answer])
        )
        assert done.code == 0, done.err
        assert done.out.startswith(said)
        assert done.out.endswith(f" -> {output}\n")
    assert (tmp_path / "clash.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "<animate" in (tmp_path / "plan.svg").read_text()
    for name, reason in [
        ("plan", plan.partition(": ")[2]),
        ("clash", clash.partition(": ")[2]),
        ("words", words),
    ]:
        assert reason in (tmp_path / f"{name}.svg").read_text()


def test_a_data_set_is_drawn_by_id(envwright, tmp_path: Path):
    (tmp_path / "config.yaml").write_text("sizes: {3: {data_ratio: 1, hole_ratio: 0.2, wait_ratio: 0.5}}")
    assert envwright("generate", "config.yaml", "--count", "4", "-o", "data.parquet").code == 0
    chosen = read_dataset(tmp_path / "data.parquet")[3].problem
    assert envwright("render", "data.parquet", "--id", chosen.id, "-o", "one.svg").code == 0
    assert "3x3 board, replay" in (tmp_path / "one.svg").read_text()


def test_what_cannot_be_drawn_is_refused_and_nothing_is_written(refused, tmp_path: Path):
    for arguments, complaint in [
        (
            ["crossing", "-o", "plan.gif"],
            "plan.gif: its suffix names no kind of picture; expected .svg or .png",
        ),
        (
            ["crossing", "-o", "plan.svg", "--answer", "nowhere.txt"],
            "nowhere.txt: no such file; --answer takes the path of a text, or an answer, as",
        ),
        (["ring-order", "-o", "plan.svg"], "ring-order: problem 'ring-order' is not solvable"),
        (["crossing", "--id", "x", "-o", "plan.svg"], "crossing: 0 problems with the id 'x'"),
    ]:
        refused(["render", *arguments], f"error: {complaint}")
    assert not list(tmp_path.iterdir())


def test_before_the_solver_is_compiled_a_line_says_so(tmp_path: Path):
    command = [*ENVWRIGHT, "render", "crossing", "-o", "plan.svg"]
    variables = environment(tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, env=variables, **pipes) as child:
        assert child.stderr is not None
        first = child.stderr.readline()
        child.kill()
    assert first == "compiling the solver for this machine, once; this takes about a minute\n"
