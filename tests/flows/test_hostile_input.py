"""Every command that reads problems refuses every kind of hostile file with one message: file, value and what is wrong."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from envgen.dataset import SCHEMA, to_table
from envgen.problem import Agent, Instance, Problem, Solution, path_of
from envgen.prompts import PromptStyle
from flows.cli import main

GRID = "S F G\nF H F\ns F g"
AGENTS = "Agent 0: (0,0) to (0,2)\nAgent 1: (2,0) to (2,2)"
PROBLEM = Problem(id="x", size=3, holes=((1, 1),), agents=(Agent(start=(0, 0), goal=(0, 2)), Agent(start=(2, 0), goal=(2, 2))))
PLAN = tuple(path_of(agent.start, ["RIGHT", "RIGHT"]) for agent in PROBLEM.agents)
INSTANCE = Instance(problem=PROBLEM, solution=Solution(sum_of_costs=4, makespan=2, wait_required=False, waits=0, plan=PLAN))


def json_line(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**PROBLEM.model_dump(mode="json"), **fields}) + "\n")


def agents(start: object, goal: object) -> list[dict]:
    return [{"start": [0, 0], "goal": [0, 2]}, {"start": start, "goal": goal}]


def benchmark_row(path: Path, grid: str = GRID, lines: str = AGENTS, num_agents: object = 2) -> None:
    path.write_text(json.dumps({"sample_id": "x", "num_agents": num_agents, "text": f"{grid}\n{lines}"}) + "\n")


def board_text(path: Path, grid: str = GRID, lines: str = AGENTS) -> None:
    path.write_text(f"{grid}\n{lines}\n")


def scenario(path: Path, side: object = 3, start: str = "0\t2", goal: str = "2\t2", grid: str = "...\n.@.\n...", height: object = 3) -> None:
    rows = [f"0\tb.map\t3\t3\t0\t0\t2\t0\t2\n0\tb.map\t{side}\t{side}\t{start}\t{goal}\t2"]
    path.write_text("\n".join(["version 1", *rows]) + "\n")
    path.with_name("b.map").write_text(f"type octile\nheight {height}\nwidth 3\nmap\n{grid}\n")


def data_set(path: Path, **columns: object) -> None:
    """One row; a value is an element of the column's type, or an array of any type."""
    table = to_table([INSTANCE], PromptStyle.BOARD)
    for name, value in columns.items():
        array = value if isinstance(value, pa.Array) else pa.array([value], SCHEMA.field(name).type)
        table = table.set_column(SCHEMA.names.index(name), name, array)
    pq.write_table(table, path)


HOSTILE: dict[str, tuple[str, Callable[..., None], dict[str, object], str]] = {
    "JSON, size 0": ("p.jsonl", json_line, {"size": 0}, "size: Input should be greater than or equal to 3 (got 0)"),
    "JSON, size 10^9": ("p.jsonl", json_line, {"size": 10**9}, "size: Input should be less than or equal to 10 (got 1000000000)"),
    "JSON, negative size": ("p.jsonl", json_line, {"size": -3}, "size: Input should be greater than or equal to 3 (got -3)"),
    "JSON, fraction as size": ("p.jsonl", json_line, {"size": 3.5}, "size: Input should be a valid integer"),
    "JSON, float as size": ("p.jsonl", json_line, {"size": 3.0}, "size: Input should be a valid integer (got 3.0)"),
    "JSON, negative cell": ("p.jsonl", json_line, {"agents": agents([-1, 0], [2, 2])}, "agents.1.start.0: Input should be greater than or equal to 0 (got -1)"),
    "JSON, cell 10^9": ("p.jsonl", json_line, {"agents": agents([10**9, 0], [2, 2])}, "agents.1.start.0: Input should be less than 10 (got 1000000000)"),
    "JSON, agent twice": ("p.jsonl", json_line, {"agents": agents([0, 0], [0, 2])}, "two agents share a start; give every agent its own"),
    "JSON, start on hole": ("p.jsonl", json_line, {"agents": agents([1, 1], [2, 2])}, "start (1, 1) lies on a hole; move it"),
    "JSON, shared goal": ("p.jsonl", json_line, {"agents": agents([2, 0], [0, 2])}, "two agents share a goal; give every agent its own"),
    "benchmark, size 0": ("p.jsonl", benchmark_row, {"grid": ""}, "no grid found; expected one grid"),
    "benchmark, size 11": ("p.jsonl", benchmark_row, {"grid": "\n".join(["F " * 11] * 11)}, "no grid found; expected one grid"),
    "benchmark, 10^9 agents": ("p.jsonl", benchmark_row, {"num_agents": 10**9}, "num_agents is 1000000000, but the text places 2 agents"),
    "benchmark, no agents": ("p.jsonl", benchmark_row, {"num_agents": 0}, "num_agents is 0, but the text places 2 agents"),
    "benchmark, negative agents": ("p.jsonl", benchmark_row, {"num_agents": -1}, "num_agents is -1, but"),
    "benchmark, float agents": ("p.jsonl", benchmark_row, {"num_agents": 2.0}, "num_agents: Input should be a valid integer (got 2.0)"),
    "text, size 0": ("p.txt", board_text, {"grid": ""}, "no grid found; expected one grid"),
    "text, size 11": ("p.txt", board_text, {"grid": "\n".join(["F " * 11] * 11)}, "no grid found; expected one grid"),
    "scenario, size 0": ("p.scen", scenario, {"side": 0}, "line 3: width and height are 0 and 0, but b.map is 3x3; correct"),
    "scenario, size 10^9": ("p.scen", scenario, {"side": 10**9}, "line 3: width and height are 1000000000 and 1000000000, but b.map is 3x3"),
    "scenario, negative size": ("p.scen", scenario, {"side": -3}, "line 3: width and height are -3 and -3, but b.map is 3x3"),
    "scenario, float as size": ("p.scen", scenario, {"side": 3.0}, "line 3: expected 'bucket map width height"),
    "scenario, negative cell": ("p.scen", scenario, {"start": "0\t-1"}, "line 3: start.0: Input should be greater than or equal to 0 (got -1)"),
    "scenario, cell 10^9": ("p.scen", scenario, {"start": "1000000000\t0"}, "line 3: start.1: Input should be less than 10 (got 1000000000)"),
    "scenario, float cell": ("p.scen", scenario, {"start": "0.0\t2"}, "line 3: expected 'bucket map width height"),
    "scenario, agent twice": ("p.scen", scenario, {"start": "0\t0"}, "two agents share a start; give every agent its own"),
    "scenario, start on hole": ("p.scen", scenario, {"start": "1\t1"}, "start (1, 1) lies on a hole; move it"),
    "scenario, shared goal": ("p.scen", scenario, {"goal": "2\t0"}, "two agents share a goal; give every agent its own"),
    "map, size 0": ("p.scen", scenario, {"grid": ""}, "b.map: the map must be square with 3 to 10 cells a side, got 0 rows"),
    "map, size 11": ("p.scen", scenario, {"grid": "\n".join(["." * 11] * 11)}, "b.map: the map must be square with 3 to 10 cells a side, got 11 rows"),
    "map, height 10^9": ("p.scen", scenario, {"height": 10**9}, "b.map: line 2: height is '1000000000', but the map below is 3x3"),
    "map, negative height": ("p.scen", scenario, {"height": -3}, "b.map: line 2: height is '-3', but the map below is 3x3"),
    "map, float height": ("p.scen", scenario, {"height": 3.0}, "b.map: line 2: height is '3.0', but the map below is 3x3"),
    "Parquet, size 0": ("p.parquet", data_set, {"size": 0}, "row 0: not an instance: size: Input should be greater than or equal to 3 (got 0)"),
    "Parquet, size 10^9": ("p.parquet", data_set, {"size": pa.array([10**9])}, "column 'size' does not hold int8"),
    "Parquet, negative size": ("p.parquet", data_set, {"size": -3}, "size: Input should be greater than or equal to 3 (got -3)"),
    "Parquet, fraction as size": ("p.parquet", data_set, {"size": pa.array([3.5])}, "column 'size' does not hold int8"),
    "Parquet, negative cell": ("p.parquet", data_set, {"starts": [[0, 0], [-1, 0]]}, "start.0: Input should be greater than or equal to 0 (got -1)"),
    "Parquet, agent twice": ("p.parquet", data_set, {"starts": [[0, 0], [0, 0]]}, "two agents share a start; give every agent its own"),
    "Parquet, start on hole": ("p.parquet", data_set, {"starts": [[0, 0], [1, 1]]}, "start (1, 1) lies on a hole; move it"),
    "Parquet, shared goal": ("p.parquet", data_set, {"goals": [[0, 2], [0, 2]]}, "two agents share a goal; give every agent its own"),
    "Parquet, false costs": ("p.parquet", data_set, {"sum_of_costs": 3}, "row 0: not an instance: sum_of_costs 3 and makespan 2 are not those of the plan"),
}
TEXT_LINES = {
    "negative cell": ("(2,0)", "(-1,0)", "cell '-1, 0' lies outside of the 3x3 grid"),
    "cell 10^9": ("(2,0)", "(1000000000,0)", "cell '1000000000, 0' lies outside of the 3x3 grid"),
    "float cell": ("(2,0)", "(2.0,0)", "1 cells in 'Agent 1: (2.0,0) to (2,2)'; expected a start and a goal"),
    "agent twice": ("(2,0)", "(0,0)", "two agents share a start; give every agent its own"),
    "start on hole": ("(2,0)", "(1,1)", "start (1, 1) lies on a hole; move it"),
    "shared goal": ("(2,2)", "(0,2)", "two agents share a goal; give every agent its own"),
}
BARE = "F F F\nF H F\nF F F"
for what, (old, new, complaint) in TEXT_LINES.items():
    HOSTILE[f"text, {what}"] = ("p.txt", board_text, {"grid": BARE, "lines": AGENTS.replace(old, new)}, complaint)
    HOSTILE[f"benchmark, {what}"] = ("p.jsonl", benchmark_row, {"grid": BARE, "lines": AGENTS.replace(old, new)}, complaint)

COMMANDS = {"solve": ["-o", "out.jsonl"], "convert": ["out.jsonl"], "render": ["-o", "out.svg"], "play": ["--plan"]}


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["envwright", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("name", "write", "fields", "complaint"), HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_problems_end_a_command_with_one_clear_message(
    command: str, name: str, write, fields: dict, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    write(Path(name), **fields)
    before = sorted(tmp_path.iterdir())
    assert ended(monkeypatch, command, name, *COMMANDS[command]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"error: {'b.map' if complaint.startswith('b.map') else name}: ")
    assert complaint in said.err
    assert said.err.count("\n") == 1
    assert len(said.err) < 400
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(("name", "write"), {name: write for name, write, _, _ in HOSTILE.values()}.items())
def test_the_same_files_are_taken_where_nothing_is_changed(name: str, write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write(Path(name))
    assert ended(monkeypatch, "convert", name, "out.jsonl") == 0
    assert json.loads(Path("out.jsonl").read_text())["agents"] == PROBLEM.model_dump(mode="json")["agents"]
