"""`envwright convert`: problems from one format to another."""

import json
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from problem_lines import APART, NAMELESS, PROBLEMS, problem_line, write_lines

from envgen.dataset import read_dataset
from envgen.mapf.formats import read_problems
from envgen.mapf.problem import identity


def test_a_board_goes_through_all_formats_and_back(envwright, tmp_path: Path):
    files = ["bay.jsonl", "bay.txt", "bay.scen", "bay.parquet", "again.jsonl"]
    for source, output in pairwise(["bay", *files]):
        done = envwright("convert", source, output)
        assert (done.code, done.out) == (0, f"1 problem -> {output}\n"), done.err
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "bay.jsonl").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*files, "bay.map"])
    assert read_dataset(tmp_path / "bay.parquet")[0].solution.sum_of_costs == 8


def test_problems_become_a_data_set_with_canonical_ids_their_own_names_and_the_prompts_of_the_style(
    envwright, tmp_path: Path
):
    row = {"sample_id": "3ag_3x3_hr0.1_000", "num_agents": 3, "text": "a s g\nG S F\nA F F"}
    write_lines(tmp_path / "p.jsonl", APART, NAMELESS, row)
    done = envwright("convert", "p.jsonl", "data.parquet", "--style", "compact")
    assert done.code == 0, done.err
    instances, table = read_dataset(tmp_path / "data.parquet"), pq.read_table(tmp_path / "data.parquet")
    assert [i.problem.id for i in instances] == [identity(i.problem) for i in instances]
    assert table["name"].to_pylist() == ["apart", "", "3ag_3x3_hr0.1_000"]
    assert [p.id for p in read_problems(tmp_path / "data.parquet")] == [
        "apart",
        instances[1].problem.id,
        "3ag_3x3_hr0.1_000",
    ]
    assert [i.solution.sum_of_costs for i in instances[:2]] == [4, 1]
    assert all(text.startswith("Solve 3x3.") for text in table["prompt"].to_pylist())
    assert envwright("convert", "data.parquet", "one.txt", "--id", "3ag_3x3_hr0.1_000").code == 0
    assert (tmp_path / "one.txt").read_text().startswith("a s g\nG S F\nA F F\nAgent 0: (1,1) to (1,0)\n")


def test_a_converted_data_set_answers_to_the_names_that_its_problems_had(envwright, tmp_path: Path):
    write_lines(
        tmp_path / "p.jsonl", APART, problem_line("mirrored", 3, [], ((2, 2), (2, 0)), ((0, 0), (0, 2)))
    )
    done = envwright("convert", "p.jsonl", "d.parquet")
    said = "2 problems -> d.parquet (boards repeated up to symmetry and the order of agents: 1)\n"
    assert (done.code, done.out) == (0, said), done.err
    write_lines(
        tmp_path / "a.jsonl",
        {"id": "mirrored", "completion": "Agent 0: (2,2) (2,1) (2,0)\nAgent 1: (0,0) (0,1) (0,2)"},
    )
    done = envwright("verify", "d.parquet", "a.jsonl")
    assert json.loads(done.out)["optimal"], done.err
    assert envwright("convert", "d.parquet", "again.parquet").code == 0
    assert envwright("convert", "again.parquet", "again.jsonl").code == 0
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "p.jsonl").read_text()


ONE_OF_THEM = (
    "p.jsonl: 0 problems with the id 'apar', expected one; there are 'apart', 'there already',"
    " 'crossing', ..."
)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            "p.jsonl out.csv",
            "out.csv: its suffix names no format; expected one of .jsonl, .parquet, .scen, .txt",
        ),
        (
            "p.jsonl out.scen",
            "out.scen: holds one problem, p.jsonl has 6; choose one with --id, or write .jsonl",
        ),
        ("p.jsonl out.txt --id apar", ONE_OF_THEM),
        ("p.jsonl out.parquet", "p.jsonl: problem 'no way past' is not solvable"),
        ("p.jsonl out.parquet --style prose", "--style 'prose': expected one of board, compact"),
        (
            "atlantis out.txt",
            "atlantis: no such file, and no board of that name; the boards are parallel, bay",
        ),
        ("empty.jsonl out.jsonl", "empty.jsonl: holds no problem"),
        ("nowhere.scen out.jsonl", "nowhere.scen: no such file"),
        (
            "p.jsonl out.jsonl --agents 1",
            "p.jsonl: 1 agents asked for, which only a .scen file can be cut down to; leave out --agents",
        ),
        (
            "crossing out.jsonl --agents 1",
            "crossing: 1 agents asked for, which only a .scen file can be cut down to",
        ),
    ],
)
def test_what_cannot_be_converted_is_refused_and_nothing_is_written(
    refused, tmp_path: Path, arguments: str, complaint: str
):
    write_lines(tmp_path / "p.jsonl", *PROBLEMS)
    (tmp_path / "empty.jsonl").write_text("\n\n")
    refused(["convert", *arguments.split()], f"error: {complaint}")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty.jsonl", "p.jsonl"]


def test_a_problem_whose_goal_cannot_be_reached_has_no_scenario(refused, tmp_path: Path):
    write_lines(tmp_path / "p.jsonl", *PROBLEMS)
    refused(
        ["convert", "p.jsonl", "out.scen", "--id", "cut off"],
        "error: agent 0 cannot reach its goal (3, 3) from (0, 0)",
    )
    assert [p.name for p in tmp_path.iterdir()] == ["p.jsonl"]
