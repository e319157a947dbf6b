"""`envwright mapf solve`: optimal plans for problems from files of every kind."""

import errno
import json
import os
import resource
from pathlib import Path

from problem_lines import GOOD, PROBLEMS, write_lines
from support.boards import board, path_of

from envgen.dataset import write_dataset
from envgen.mapf.problem_files import read_instances, read_problems
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.verifier import verify_plan

SOLVED = '{"id": "%s", "solvable": true, "sum_of_costs": %d, "makespan": %d, "wait_required": %s, "plan": %s}'


def test_solutions_are_the_lines_of_the_contract_always_the_same_with_plans_that_hold(envwright, tmp_path):
    write_lines(tmp_path / "problems.jsonl", *PROBLEMS)
    done = envwright("mapf", "solve", "problems.jsonl", "-o", "deep/solutions.jsonl")
    assert (done.code, done.out) == (0, "6 problems -> deep/solutions.jsonl\n"), done.err
    written = (tmp_path / "deep" / "solutions.jsonl").read_bytes()
    lines = written.decode().splitlines()
    assert lines.pop(2) in [
        SOLVED % ("crossing", 5, 3, "true", '[["WAIT", "RIGHT", "RIGHT"], ["DOWN", "DOWN"]]'),
        SOLVED % ("crossing", 5, 3, "true", '[["RIGHT", "RIGHT"], ["WAIT", "DOWN", "DOWN"]]'),
    ]
    assert lines == [
        SOLVED % ("apart", 4, 2, "false", '[["RIGHT", "RIGHT"], ["LEFT", "LEFT"]]'),
        SOLVED % ("there already", 1, 1, "false", '[[], ["UP"]]'),
        '{"id": "no way past", "solvable": false}',
        '{"id": "cut off", "solvable": false}',
        SOLVED % ("", 1, 1, "false", '[["UP"]]'),
    ]
    assert envwright("mapf", "solve", "problems.jsonl", "-o", "again.jsonl").code == 0
    assert (tmp_path / "again.jsonl").read_bytes() == written
    for problem, line in zip(read_problems(tmp_path / "problems.jsonl"), written.splitlines(), strict=True):
        if (solution := json.loads(line))["solvable"]:
            moves = zip(problem.agents, solution["plan"], strict=True)
            plan = tuple(path_of(agent.start, path) for agent, path in moves)
            verdict = verify_plan(problem, plan, solution["sum_of_costs"])
            assert (verdict.valid, verdict.optimal, verdict.makespan) == (True, True, solution["makespan"])


def test_boards_are_solved_from_files_of_every_kind(envwright, refused, tmp_path: Path):
    write_lines(tmp_path / "bay.jsonl", board("bay").model_dump(mode="json"))
    [instance] = read_instances(tmp_path / "bay.jsonl")
    write_dataset(tmp_path / "bay.parquet", [instance], PromptStyle.BOARD, {})
    for source in ("bay.jsonl", "bay.parquet"):
        done = envwright("mapf", "solve", source, "-o", f"{source}.out")
        assert (done.code, done.out) == (0, f"1 problem -> {source}.out\n"), done.err
    assert len({path.read_text() for path in tmp_path.glob("*.out")}) == 1
    (tmp_path / "empty.jsonl").write_text("\n")
    refused(["mapf", "solve", "empty.jsonl", "-o", "s"], "empty.jsonl: holds no problem")


def test_a_malformed_line_stops_the_command_and_odd_line_breaks_in_texts_do_not(envwright, refused, tmp_path):
    name = "a\u2028b\x85c"
    named = GOOD.replace('"x"', json.dumps(name, ensure_ascii=False))
    (tmp_path / "p.jsonl").write_bytes(f"\r\n{GOOD}\r\n\n{named}\n{GOOD[:-1]}\n{GOOD}\n".encode())
    (tmp_path / "old.jsonl").write_text("what was there")
    for output in ("new.jsonl", "old.jsonl"):
        refused(["mapf", "solve", "p.jsonl", "-o", output], "error: p.jsonl: line 5: not JSON")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["old.jsonl", "p.jsonl"]
    assert (tmp_path / "old.jsonl").read_text() == "what was there"
    (tmp_path / "p.jsonl").write_bytes(f"\r\n{GOOD}\r\n\n{named}\n\n".encode())
    assert envwright("mapf", "solve", "p.jsonl", "-o", "s.jsonl").code == 0
    assert [json.loads(line)["id"] for line in (tmp_path / "s.jsonl").read_text().splitlines()] == ["x", name]


def test_files_that_cannot_be_read_or_written_are_named(refused, tmp_path: Path):
    (tmp_path / "p.jsonl").write_text(GOOD)
    (tmp_path / "folder").mkdir()
    refused(["mapf", "solve", "nowhere.jsonl", "-o", "s"], "error: nowhere.jsonl: no such file")
    refused(["mapf", "solve", "folder", "-o", "s"], "error: folder: cannot be read as text")
    refused(["mapf", "solve", "p.jsonl", "-o", "folder"], "error: folder: Is a directory")
    refused(["mapf", "solve", "p.jsonl", "-o", "p.jsonl/s"], "error: p.jsonl")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "p.jsonl"]


def test_a_full_disk_leaves_no_half_file(refused, tmp_path: Path):
    write_lines(tmp_path / "p.jsonl", *[GOOD] * 100)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        refused(["mapf", "solve", "p.jsonl", "-o", "s.jsonl"], "File too large; free some space and run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [p.name for p in tmp_path.iterdir()] == ["p.jsonl"]


def test_a_file_system_that_is_read_only_is_named(refused, tmp_path: Path, monkeypatch):
    def replace(source: object, target: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(target))

    write_lines(tmp_path / "p.jsonl", GOOD)
    monkeypatch.setattr("envgen.files.os.replace", replace)
    refused(["mapf", "solve", "p.jsonl", "-o", "s"], "error: s: Read-only file system; choose another path")
