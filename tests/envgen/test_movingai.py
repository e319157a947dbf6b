from pathlib import Path

import pytest
from board_makers import make_problem, problems, repeatable
from hypothesis import given, settings

from envgen.errors import DataError
from envgen.mapf.boards import NAMES, board
from envgen.mapf.formats import read_problems
from envgen.mapf.movingai import read_map, read_scenario, write_scenario
from envgen.mapf.problem import Problem
from envgen.mapf.solver.solve import solve

MAP = "type octile\nheight 3\nwidth 3\nmap\n..@\n.T.\n...\n"
ROW = "0\tboard.map\t3\t3\t0\t1\t2\t1\t2"


def row_by_row(problem: Problem, name: str) -> Problem:
    return problem.model_copy(update={"id": name, "holes": tuple(sorted(problem.holes))})


def scenario(folder: Path, *rows: str, board: str = MAP) -> Path:
    (folder / "board.map").write_text(board)
    (folder / "case.scen").write_text("\n".join(["version 1", *rows]) + "\n")
    return folder / "case.scen"


@settings(repeatable, max_examples=60)
@given(problem=problems())
def test_a_problem_comes_back_from_its_map_and_scenario(problem: Problem, tmp_path_factory):
    path = tmp_path_factory.mktemp("boards") / "one.scen"
    if any(solve(problem.model_copy(update={"agents": (agent,)})) is None for agent in problem.agents):
        with pytest.raises(DataError, match="cannot reach its goal"):
            write_scenario(path, problem)
        assert not list(path.parent.iterdir())
        return
    board_path = write_scenario(path, problem)
    assert (
        [file.name for file in sorted(path.parent.iterdir())]
        == [board_path.name, path.name]
        == ["one.map", "one.scen"]
    )
    assert read_problems(path) == [row_by_row(problem, "one")]


@pytest.mark.parametrize("name", sorted(set(NAMES)))
def test_named_boards_come_back_under_the_name_of_the_file(name: str, tmp_path: Path):
    write_scenario(tmp_path / f"{name}.scen", board(name))
    assert read_scenario(tmp_path / f"{name}.scen") == board(name)


def test_rows_are_the_columns_of_the_format_x_before_y_with_the_length_of_the_agents_own_path(tmp_path: Path):
    problem = make_problem(3, ((1, 1), (0, 2)), ((1, 0), (0, 1)), ((1, 2), (2, 0)))
    write_scenario(tmp_path / "my board.scen", problem)
    assert (tmp_path / "my board.scen").read_text() == (
        "version 1\n0\tmy board.map\t3\t3\t0\t1\t2\t1\t4\n0\tmy board.map\t3\t3\t1\t0\t0\t2\t3\n"
    )
    assert (tmp_path / "my board.map").read_text() == "type octile\nheight 3\nwidth 3\nmap\n..@\n.@.\n...\n"
    assert read_scenario(tmp_path / "my board.scen").agents == problem.agents


def test_what_was_there_stays_when_an_agent_cannot_reach_its_goal(tmp_path: Path):
    path = scenario(tmp_path, ROW)
    walled = make_problem(3, ((0, 1), (1, 0), (1, 1)), ((0, 0),), ((2, 2),))
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(DataError, match=r"agent 0 cannot reach its goal \(2, 2\) from \(0, 0\)"):
        write_scenario(path, walled)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_name_that_would_break_the_rows_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="choose a name without tabs"):
        write_scenario(tmp_path / "a\tb.scen", board("crossing"))
    assert not list(tmp_path.iterdir())


def test_scenarios_with_blanks_between_columns_and_carriage_returns_are_read(tmp_path: Path):
    path = scenario(tmp_path, ROW.replace("\t", "  ") + "\r", "", board=MAP.replace("\n", "\r\n"))
    assert read_scenario(path).agents == make_problem(3, (), ((1, 0),), ((1, 2),)).agents


HUGE = "9" * 5000
BAD_ROWS = {
    "a missing column": ("0\tboard.map\t3\t3\t0\t1\t2", "line 2: expected 'bucket map"),
    "a word": (ROW.replace("\t1\t2\t1", "\tone\t2\t1"), "line 2: expected 'bucket map"),
    "a fraction": (ROW.replace("\t1\t2\t1", "\t1.5\t2\t1"), "line 2: expected 'bucket map"),
    "not a number": (ROW.replace("\t1\t2\t1", "\tnan\t2\t1"), "line 2: expected 'bucket map"),
    "a huge integer": (ROW.replace("\t1\t2\t1", f"\t{HUGE}\t2\t1"), "line 2: expected 'bucket map"),
    "a large integer": (
        ROW.replace("\t1\t2\t1", f"\t{10**9}\t2\t1"),
        "line 2: start.0: Input should be less than 10 (got 1000000000)",
    ),
    "a negative one": (
        ROW.replace("\t1\t2\t1", "\t-1\t2\t1"),
        "line 2: start.0: Input should be greater than or equal to 0 (got -1)",
    ),
    "a cell outside": (ROW.replace("\t1\t2\t1", "\t3\t2\t1"), "start (3, 0) lies outside the 3x3 board"),
    "a start on a hole": (ROW.replace("\t0\t1\t2", "\t1\t1\t2"), "start (1, 1) lies on a hole"),
    "another size": (
        ROW.replace("3\t3", "32\t32"),
        "line 2: width and height are 32 and 32, but board.map is 3x3",
    ),
    "the folder above": (ROW.replace("board.map", ".."), "cannot be read as text"),
    "no name": (ROW.replace("board.map", "/"), "cannot be read as text"),
    "a null byte": (ROW.replace("board.map", "\0"), "cannot be read as text"),
    "a very long name": (ROW.replace("board.map", "x" * 5000), "cannot be read as text"),
    "a giant line": (ROW + "\t0" * 200_000 + "\n" + ROW, "two agents share a start"),
    "two maps": (
        ROW + "\n" + ROW.replace("board", "other"),
        "its agents are on several maps, ['board.map', 'other.map']",
    ),
    "a shared goal": (ROW + "\n" + ROW.replace("\t0\t1\t2", "\t0\t2\t2"), "two agents share a goal"),
}


@pytest.mark.parametrize(("rows", "complaint"), BAD_ROWS.values(), ids=list(BAD_ROWS))
def test_a_bad_row_is_named(rows: str, complaint: str, tmp_path: Path):
    path = scenario(tmp_path, rows)
    with pytest.raises(DataError) as caught:
        read_scenario(path)
    assert complaint in str(caught.value)
    # The longest holds a path of 5,000 characters that the system's own message repeats.
    assert len(str(caught.value)) < 11_000


BAD_MAPS = {
    "nothing": ("", "has no line 'map'"),
    "no rows": (MAP.partition("..@")[0], "got 0 rows of [] cells"),
    "a tower": (MAP + "...\n" * 500_000, "got 500003 rows of [3] cells"),
    "rows of every length": (
        "map\n" + "\n".join("." * n for n in range(1, 2000)),
        "got 1999 rows of [1, 2, 3",
    ),
    "a giant row": (MAP + "." * 1_000_000, "got 4 rows of [3, 1000000] cells"),
    "another height": (
        MAP.replace("height 3", "height 1000000000"),
        "line 2: height is '1000000000', but the map below is 3x3",
    ),
    "a negative width": (
        MAP.replace("width 3", "width -3"),
        "line 3: width is '-3', but the map below is 3x3",
    ),
    "unknown terrain": (MAP.replace("T", "\u2028"), "line 6: unknown terrain '\\u2028'"),
}


@pytest.mark.parametrize(("text", "complaint"), BAD_MAPS.values(), ids=list(BAD_MAPS))
def test_a_bad_map_is_named(text: str, complaint: str, tmp_path: Path):
    (tmp_path / "board.map").write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_map(tmp_path / "board.map")
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/board.map: ")
    assert len(str(caught.value)) < 400
