import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from envgen.errors import DataError
from envgen.mapf.boards import board
from envgen.mapf.commands.answers import judged_plan
from envgen.mapf.commands.play import play, show_answer, show_plan
from envgen.mapf.commands.problems import Posed
from envgen.mapf.problem import Problem, from_text
from envgen.mapf.prompts import PromptStyle


def session(how, name: str | Problem, *lines: str, style: PromptStyle = PromptStyle.BOARD) -> list[str]:
    """What the terminal shows while the lines are typed; then the input ends."""
    typed: Iterator[str] = iter(lines)

    def ask(text: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    screen = io.StringIO()
    console = Console(file=screen, width=100)
    how(Posed(board(name) if isinstance(name, str) else name), style, console, ask)
    assert list(typed) == [], "every line was read"
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def test_an_optimal_play_ends_by_itself_with_the_verdict():
    shown = session(play, "crossing", "wait right", "D R", "d w")
    assert shown[-1] == "valid: sum of costs 5, optimal; makespan 3; somebody has to wait"
    assert [line for line in shown if line.startswith("step")] == ["step 0", "step 1", "step 2", "step 3"]
    start = shown.index("step 0")
    assert shown[start + 1 : start + 7] == [
        "    0  1  2",
        " 0  #  0  #",
        " 1  1  . (1)",
        " 2  # (0) #",
        " 0  at (0,1), goal (2,1)",
        " 1  at (1,0), goal (1,2)",
    ]
    assert shown[-3:-1] == [" 0  on its goal  W D D", " 1  on its goal  R R W"]


def test_a_detour_is_valid_and_measured():
    assert (
        session(play, "crossing", "w w", "d w", "d w", "w r", "w r")[-1]
        == "valid: sum of costs 8, 3 above the optimum 5; makespan 5; somebody has to wait"
    )
    assert (
        session(play, "parallel", "r r", "r r")[-1]
        == "valid: sum of costs 4, optimal; makespan 2; nobody has to wait"
    )


def test_a_broken_rule_has_to_be_undone():
    shown = session(play, "crossing", "d r", "d r", "u", "d w", "d r", "w r")
    assert shown.count("conflict in step 1: agents 0 and 1 are both in (1,1) after step 1") == 2
    assert shown.count("undo the step with u, or quit with q") == 1
    assert " 1  . !01(1)" in shown
    assert shown[-1].startswith("valid: sum of costs 5")


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ((), "not valid: goal not reached by step 0: agent 0 ends at (0,1)"),
        (("q",), "not valid: goal not reached by step 0"),
        (("u", "u", "Q"), "not valid: goal not reached by step 0"),
        (("up wait", "quit"), "not valid: illegal move in step 1: agent 0 leaves the 3x3 grid to (-1,1)"),
        (("l w",), "not valid: hole collision in step 1: agent 0 enters the hole (0,0)"),
    ],
)
def test_a_play_that_is_left_says_what_is_wrong(lines: tuple[str, ...], verdict: str):
    assert session(play, "crossing", *lines)[-1].startswith(verdict)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("r", "1 move for 2 agents; type one for each, as in R W"),
        ("r r r", "3 moves for 2 agents"),
        ("r x", "unknown move 'X'; expected one of up down left right wait, or the first letter"),
        ("r rightwards", "unknown move 'RIGHTWARDS'"),
        ("r [bold]", "unknown move '[BOLD]'"),
        ("r \x1b[2J", "unknown move '\\x1b[2J'"),
        ("r " + "9" * 5000, "unknown move '9999"),
        ("r " * 5000, "5000 moves for 2 agents"),
    ],
)
def test_a_line_that_is_no_move_is_explained_and_changes_nothing(line: str, complaint: str):
    shown = session(play, "crossing", line, "")
    assert any(text.startswith(complaint) for text in shown)
    assert {text for text in shown if text.startswith("step")} == {"step 0"}


def test_a_single_agent_goes_up_with_a_large_letter_and_back_with_a_small_one():
    alone = from_text("F F F\nF F G\nS F F")
    shown = session(play, alone, "U", "u", "U", "r", "r")
    assert [line for line in shown if line.startswith("step")] == [f"step {n}" for n in (0, 1, 0, 1, 2, 3)]
    assert shown[-1] == "valid: sum of costs 3, optimal; makespan 3; nobody has to wait"


@pytest.mark.parametrize(
    ("style", "line"), [(PromptStyle.BOARD, "Plan paths for 2 agents"), (PromptStyle.COMPACT, "Solve 3x3.")]
)
def test_the_prompt_is_shown_on_request(style: PromptStyle, line: str):
    for how in (play, show_plan):
        shown = session(how, "crossing", "p", "q", style=style)
        assert any(line in text for text in shown)
        assert any("what the policy sees" in text for text in shown[1:])


def test_a_plan_is_shown_step_by_step_and_back():
    shown = session(show_plan, "crossing", "", "u", "u", "", "", "")
    assert [line for line in shown if line.startswith("step")] == [f"step {n}" for n in (0, 1, 0, 0, 1, 2, 3)]
    assert shown[-1] == "valid: sum of costs 5, optimal; makespan 3; somebody has to wait"
    assert not any("valid" in line for line in session(show_plan, "crossing", "", "q"))


ANSWERS = {
    "both in one cell": (
        ["(0,1) (1,1) (2,1)", "(1,0) (1,1) (1,2)"],
        1,
        "conflict in step 1: agents 0 and 1 are both in (1,1) after step 1",
        "!01",
    ),
    "into a hole": (
        ["(0,1) (0,1) (0,2) (0,1)", "(1,0)"],
        2,
        "hole collision in step 2: agent 0 enters the hole (0,2)",
        "!0",
    ),
    "a jump": (
        ["(0,1) (2,1)", "(1,0)"],
        1,
        "illegal move in step 1: agent 0 jumps from (0,1) to (2,1), which is no neighbour",
        "!0",
    ),
    "off the board": (
        ["(0,1)", "(1,0) (1,1) (1,2) (1,3)"],
        3,
        "illegal move in step 3: agent 1 leaves the 3x3 grid to (1,3)",
        "",
    ),
    "a wrong start": (
        ["(2,1)", "(1,0)"],
        0,
        "illegal move in step 0: agent 0 begins at (2,1), its start is (0,1)",
        "!0",
    ),
    "a goal missed": (
        ["(0,1) (1,1)", "(1,0)"],
        1,
        "goal not reached by step 1: agent 0 ends at (1,1), its goal is (2,1)",
        "!0",
    ),
}


@pytest.mark.parametrize(("paths", "last", "reason", "mark"), ANSWERS.values(), ids=list(ANSWERS))
def test_an_answer_is_stepped_to_where_it_fails(paths: list[str], last: int, reason: str, mark: str):
    problem = board("crossing")
    text = "\n".join(f"Agent {index}: {path}" for index, path in enumerate(paths))

    def how(one: Posed, style: PromptStyle, console: Console, ask) -> None:
        show_answer(one, *judged_plan(one, "crossing", text), style, console, ask)

    shown = session(how, problem, *[""] * last)
    assert [line for line in shown if line.startswith("step")] == [f"step {n}" for n in range(last + 1)]
    assert shown[-2:] == [reason, f"not valid: {reason}"]
    assert shown.count(reason) == 1, "the failure is told at its step only"
    assert not mark or any(mark in line for line in shown[shown.index(f"step {last}") :])
    assert not any("!" in line for line in shown[shown.index("step 0") : shown.index(f"step {last}")])


def test_an_answer_without_a_plan_has_only_a_verdict():
    def how(one: Posed, style: PromptStyle, console: Console, ask) -> None:
        show_answer(one, *judged_plan(one, "crossing", "no plan (sorry)"), style, console, ask)

    assert session(how, "crossing") == [
        "not valid: parse error: no line of the form 'Agent 0: (r,c) (r,c)' found"
    ]


def test_the_problem_is_named_first_and_its_signs_explained():
    shown = session(play, "crossing", "q")
    assert shown[0] == "problem 'crossing': 3x3, 2 agents"
    assert any("(0) its goal" in line and "# hole" in line for line in shown[:4])
    hostile = board("crossing").model_copy(update={"id": "\x1b[2J[bold]x"})
    assert session(play, hostile, "q")[0] == r"problem '\x1b[2J[bold]x': 3x3, 2 agents"
    assert session(play, from_text("F F F\nF F G\nS F F"), "q")[0] == "3x3, 1 agent"


def test_a_board_without_a_plan_can_be_played_but_not_shown():
    assert session(play, "swap-corridor", "r l", "q")[-1].startswith("not valid: conflict")
    with pytest.raises(
        DataError,
        match="problem 'swap-corridor' is not solvable, so there is no plan to show; play it without --plan",
    ):
        session(show_plan, "swap-corridor")


def test_a_board_is_played_from_a_pipe(envwright):
    done = envwright("play", "crossing", typed=b"right wait\nu\nD, w\nd r\nfly\nw r\n")
    assert (done.code, done.err) == (0, "")
    assert "hole collision in step 1: agent 0 enters the hole (0,2)" in done.out
    assert "1 move for 2 agents; type one for each, as in R W" in done.out
    assert done.out.splitlines()[-1] == "valid: sum of costs 5, optimal; makespan 3; somebody has to wait"


def test_an_answer_is_stepped_from_a_pipe_to_where_it_fails(envwright):
    done = envwright(
        "play", "crossing", "--answer", "Agent 0: (0,1) (1,1)\nAgent 1: (1,0) (1,1)", typed=b"\n"
    )
    assert (done.code, done.err) == (0, "")
    assert (
        done.out.splitlines()[-1]
        == "not valid: conflict in step 1: agents 0 and 1 are both in (1,1) after step 1"
    )


def test_typed_bytes_that_are_no_text_are_refused(envwright):
    done = envwright("play", "crossing", typed=b"\xff\n")
    assert done.code == 2
    assert "error: standard input: cannot be read as text" in done.err


def test_a_board_that_cannot_be_played_is_refused(refused):
    refused(["play", "nowhere.parquet"], "nowhere.parquet: no such file")
    refused(["play", "crossing", "--style", "prose"], "--style 'prose'")
    refused(["play", "crossing", "--plan", "--answer", "x"], "--plan and --answer are both given; choose one")
    refused(["play", "crossing", "--answer", "nowhere"], "nowhere: no such file; --answer takes")
