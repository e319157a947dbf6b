"""Every command that reads problems refuses a hostile file of every kind with one message: file, value and
what is wrong.

Which values are refused in a kind of file is tested beside its reader, in tests/envgen.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.boards import path_of

from envgen.dataset import USUAL
from envgen.mapf.problem import Agent, Instance, Problem, Solution
from envgen.mapf.prompts import PromptStyle
from envgen.rows import instance_row, instance_schema

PROBLEM = Problem(
    id="x",
    size=3,
    holes=((1, 1),),
    agents=(Agent(start=(0, 0), goal=(0, 2)), Agent(start=(2, 0), goal=(2, 2))),
)
PLAN = tuple(path_of(agent.start, ["RIGHT", "RIGHT"]) for agent in PROBLEM.agents)
INSTANCE = Instance(
    problem=PROBLEM, solution=Solution(sum_of_costs=4, makespan=2, wait_required=False, waits=0, plan=PLAN)
)


def json_line(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**PROBLEM.model_dump(mode="json"), **fields}) + "\n")


def data_set(path: Path, **columns: object) -> None:
    """One row; a dict changes fields of a struct, an array replaces the column."""
    environment = USUAL.load()
    row = instance_row(environment, INSTANCE, PromptStyle.BOARD)
    row |= {name: {**row[name], **value} for name, value in columns.items() if isinstance(value, dict)}
    table = pa.Table.from_pylist([row], schema=instance_schema(environment))
    for name, value in columns.items():
        if isinstance(value, pa.Array):
            table = table.set_column(table.column_names.index(name), name, value)
    pq.write_table(table, path)


HOSTILE: dict[str, tuple[str, Callable[..., None], dict[str, object], str]] = {
    "JSON": (
        "p.jsonl",
        json_line,
        {"size": 10**9},
        "size: Input should be less than or equal to 10 (got 1000000000)",
    ),
    "Parquet": (
        "p.parquet",
        data_set,
        {"problem": {"size": -3}},
        "problem.size: Input should be greater than or equal to 3 (got -3)",
    ),
    "Parquet of another type": (
        "p.parquet",
        data_set,
        {"problem": pa.array([3.5])},
        "column 'problem' does not hold struct",
    ),
    "Parquet with false costs": (
        "p.parquet",
        data_set,
        {"solution": {"sum_of_costs": 3}},
        "not an instance: solution: sum_of_costs and makespan do not fit",
    ),
}
COMMANDS = {
    "solve": ["-o", "out.jsonl"],
    "render": ["-o", "out.svg"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("name", "write", "fields", "complaint"), HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_problems_end_a_command_with_one_clear_message(
    envwright,
    command: str,
    name: str,
    write: Callable[..., None],
    fields: dict,
    complaint: str,
    tmp_path: Path,
):
    write(tmp_path / name, **fields)
    before = sorted(tmp_path.iterdir())
    said = envwright("mapf", command, name, *COMMANDS[command])
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: {name}: ")
    assert complaint in said.err
    assert said.err.count("\n") == 1
    assert len(said.err) < 400
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(("name", "write"), {name: write for name, write, _, _ in HOSTILE.values()}.items())
def test_the_same_files_are_taken_where_nothing_is_changed(
    envwright, name: str, write: Callable[..., None], tmp_path: Path
):
    write(tmp_path / name)
    assert envwright("mapf", "solve", name, "-o", "out.jsonl").code == 0
    assert json.loads((tmp_path / "out.jsonl").read_text())["sum_of_costs"] == 4
