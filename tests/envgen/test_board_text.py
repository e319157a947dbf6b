import time
from contextlib import suppress

import pytest
from board_makers import make_problem, problems, repeatable
from hypothesis import given, settings
from hypothesis import strategies as st
from support.public_rows import public_row

from envgen.errors import DataError
from envgen.mapf.benchmark import load_suite, solve_rows
from envgen.mapf.problem import MAX_CHARACTERS, Problem, from_text, to_text
from envgen.mapf.prompts import PromptStyle, prompt

GRID = "a s g\nG S F\nA F F"
ENDS = ["start (1, 1), goal (1, 0)", "start (0, 1), goal (0, 2)", "start (2, 0), goal (0, 0)"]
LINES = [f"Agent {number}: {ends}" for number, ends in enumerate(ENDS)]
TEXT = "\n".join([GRID, *LINES])
BOARD = make_problem(3, (), ((1, 1), (0, 1), (2, 0)), ((1, 0), (0, 2), (0, 0)))


def test_the_example_of_the_paper_is_read_also_within_other_words():
    assert from_text(TEXT) == BOARD
    before = "Solve this, from (0,0) to (2,2).\nS G are agent 0's\n\n```"
    lines = [LINES[0], "", "- AGENT_1\t[0, 1] => [0, 2]\r", LINES[2]]
    text = "\n".join([before, GRID, "```\nAgents:\n", *lines, "Answer: (9, 9)"])
    assert from_text(text, "x") == BOARD.model_copy(update={"id": "x"})


@settings(repeatable, max_examples=30)
@given(problems())
def test_our_own_notation_and_prompt_are_such_texts(problem: Problem):
    problem = problem.model_copy(update={"holes": tuple(sorted(problem.holes))})
    assert from_text(to_text(problem)) == problem
    assert from_text(prompt(problem, PromptStyle.BOARD)) == problem


def test_the_lines_decide_where_a_start_hides_a_goal_or_a_goal_a_start():
    hidden = make_problem(3, (), ((0, 0), (2, 2)), ((2, 2), (0, 0)))
    for grid in ("S F F\nF F F\nF F s", "g F F\nF F F\nF F G", "S F F\nF F F\nF F G"):
        assert from_text(f"{grid}\nAgent 0: (0,0) to (2,2)\nAgent 1: (2,2) to (0,0)") == hidden


BAD = {
    "nothing": ("", r"rows of \[\] letters are no square grid; expected one grid of n rows"),
    "a size of 2": ("S G\nF F\nAgent 0: (0,0) to (0,1)", "greater than or equal to 3"),
    "a size of 11": ("\n".join(["F " * 11] * 11), "less than or equal to 10"),
    "a missing row": ("Board:\nS G F F\nF F F F\nF F F F", r"rows of \[4, 4, 4\] letters"),
    "an unknown letter": (GRID.replace("A", "X"), r"rows of \[3, 3\] letters"),
    "two boards": (f"{GRID}\n\n{GRID}", r"rows of \[3, 3, 3, 3, 3, 3\] letters"),
    "no agent": (GRID, "agents\n.*at least 1 item"),
    "a letter twice": (
        TEXT.replace("F", "A", 1),
        r"cell \(1,2\) of the grid holds 'A', the agent lines ask for F or H there; correct",
    ),
    "another start": (TEXT.replace("1, 1", "1, 2"), r"\(1,1\) of the grid holds 'S', .* for F or H there"),
    "an agent left out": (TEXT.replace(LINES[1], ""), r"\(0,0\) of the grid holds 'a', .* for g there"),
    "a start on a hole": (TEXT.replace("S", "H"), r"start \(1, 1\) lies on a hole"),
    "six agents": ("\n".join(["F F F"] * 3 + ["Agent: (0,0) to (1,1)"] * 6), "at most 5 items"),
    "a cell outside": (f"{GRID}\nAgent 0: (1,3) to (1,0)", r"start \(1, 3\) lies outside the 3x3 board"),
    "a huge integer": (f"{GRID}\nAgent 0: ({'9' * 30_000},1) to (1,0)", "agents\n.*at least 1 item"),
    "a long book": (GRID + "\nF" * MAX_CHARACTERS, f"{MAX_CHARACTERS} are read; shorten it"),
}


@pytest.mark.parametrize(("text", "complaint"), BAD.values(), ids=list(BAD))
def test_a_bad_text_is_refused_with_value_and_remedy(text: str, complaint: str):
    with pytest.raises(ValueError, match=complaint) as caught:
        from_text(text)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("unit", ["(", "( ", "(1", "(1,", "(1, 1) ", "F ", "F F F\n", "\n", "9", "[-"])
def test_no_text_takes_long(unit: str):
    begun = time.process_time()
    for head in ("", "Agent 0: ", GRID + "\nAgent 0: "):
        text = (head + unit * MAX_CHARACTERS)[:MAX_CHARACTERS]
        with suppress(ValueError):
            from_text(text)
    assert time.process_time() - begun < 2


@settings(repeatable, max_examples=100)
@given(st.text(alphabet="SsABCGgabcFH \nAgent0123:(),-[]", max_size=120), st.booleans())
def test_arbitrary_text_raises_nothing_but_value_errors(text: str, board: bool):
    try:
        problem = from_text(f"{GRID}\n{text}" if board else text)
    except ValueError:
        return
    assert from_text(to_text(problem)).agents == problem.agents


WALL = "S H G\nH H H\ns F g\nAgent 0: (0,0) to (0,2)\nAgent 1: (2,0) to (2,2)"


def test_our_instances_as_public_rows_give_the_same_identities_and_costs():
    some = load_suite()[::60]
    rows = [(item.name, public_row(item, subset=f"benchmark_{item.groups['wait subset']}")) for item in some]
    for item, read in zip(some, solve_rows(rows), strict=True):
        stored, solved = item.instance.solution, read.instance.solution
        assert (read.name, read.groups) == (item.name, item.groups)
        assert read.instance.problem == item.instance.problem
        assert (solved.sum_of_costs, solved.waits) == (stored.sum_of_costs, stored.waits)
    del rows[0][1]["subset"]
    assert "wait subset" not in solve_rows(rows[:1])[0].groups


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"id": "x", "size": 3}, "row 1: sample_id: Field required"),
        ([1], "row 1: .*dict"),
        ({"text": WALL}, "row 1: 'a' has no plan to compare costs with; leave it out"),
        ({"num_agents": 3, "text": WALL}, "row 1: num_agents is 3, but the text places 2 agents"),
        ({"subset": "x" * 41}, "row 1: subset: String should have at most 40 characters"),
        ({"text": "no board"}, "row 1: rows of .* letters are no square grid"),
        ({"num_agents": 3.0}, "num_agents: Input should be a valid integer"),
        ({"text": None}, "text: Input should be a valid string"),
        ({"sample_id": 7}, "sample_id: Input should be a valid string"),
        ({"sample_id": "x" * 201}, "sample_id: String should have at most"),
    ],
)
def test_a_row_that_is_wrong_is_named(row: object, complaint: str):
    if isinstance(row, dict) and "id" not in row:
        row = {"sample_id": "a", "num_agents": 2, "text": WALL, **row}
    with pytest.raises(DataError, match=complaint):
        solve_rows([("row 1", row)])
