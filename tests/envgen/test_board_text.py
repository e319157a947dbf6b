import time
from contextlib import suppress

import pytest
from board_makers import make_problem, problems, repeatable
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from envgen.mapf.board_text import MAX_CHARACTERS, from_text
from envgen.mapf.problem import Problem, to_text
from envgen.mapf.prompts import PromptStyle, prompt

GRID = "a s g\nG S F\nA F F"
LINES = [
    "Agent 0: start (1, 1), goal (1, 0)",
    "Agent 1: start (0, 1), goal (0, 2)",
    "Agent 2: start (2, 0), goal (0, 0)",
]
PUBLISHED = make_problem(3, (), ((1, 1), (0, 1), (2, 0)), ((1, 0), (0, 2), (0, 0)))
WORDINGS = [
    "Agent {i}: start ({a}, {b}), goal ({c}, {d})",
    "Agent {i}: ({a},{b}) to ({c},{d})",
    "agent{i} ( {a} , {b} ) -> ( {c} , {d} )",
    "- **Agent {i}** starts at ({a}, {b}) and must reach ({c}, {d}).",
    "* AGENT_{i}\t[{a}, {b}] => [{c}, {d}]\r",
]


def worded(problem: Problem, wording: str, first: int = 0) -> list[str]:
    return [
        wording.format(i=i, a=a.start[0], b=a.start[1], c=a.goal[0], d=a.goal[1])
        for i, a in enumerate(problem.agents, start=first)
    ]


def test_the_published_example_is_read():
    assert from_text("\n".join([GRID, *LINES])) == PUBLISHED
    before = "Solve this.\nS G are agent 0's\n\n```"
    text = "\n".join([before, GRID, "```\nAgents:\n", LINES[0], "", *LINES[1:], "Answer: (9, 9)"])
    assert from_text(text, "x") == PUBLISHED.model_copy(update={"id": "x"})


@settings(repeatable, max_examples=30)
@given(
    problems(),
    st.sampled_from(WORDINGS),
    st.integers(0, 1),
    st.sampled_from(["\n", "\n\n", "\nThe agents:\n"]),
)
def test_a_problem_comes_back_whatever_the_wording_of_its_agent_lines(
    problem: Problem, wording: str, first: int, between: str
):
    grid = "\n".join(to_text(problem).splitlines()[: problem.size])
    again = from_text(
        f"Plan paths.\n\n{grid}{between}"
        + "\n".join(worded(problem, wording, first))
        + "\n\nAgent 0 goes first.\n"
    )
    assert again.agents == problem.agents
    assert set(again.holes) == set(problem.holes)
    assert again.size == problem.size


@settings(repeatable, max_examples=30)
@given(problems())
def test_our_own_notation_and_prompt_are_such_texts(problem: Problem):
    problem = problem.model_copy(update={"holes": tuple(sorted(problem.holes))})
    assert from_text(to_text(problem)) == problem
    assert from_text(prompt(problem, PromptStyle.BOARD)) == problem


@settings(repeatable, max_examples=30)
@given(problems(max_agents=4), st.data())
def test_an_agent_line_that_contradicts_the_letters_is_refused(problem: Problem, data: st.DataObject):
    index = data.draw(st.integers(0, problem.num_agents - 1))
    start = data.draw(st.tuples(*[st.integers(0, problem.size - 1)] * 2))
    assume(start != problem.agents[index].start)
    lines = to_text(problem).splitlines()
    lines[problem.size + index] = f"Agent {index}: {start} to {problem.agents[index].goal}"
    with pytest.raises(ValueError, match="the agent lines ask for"):
        from_text("\n".join(lines))


def test_the_lines_decide_where_a_start_hides_a_goal_or_a_goal_a_start():
    hidden = make_problem(3, (), ((0, 0), (2, 2)), ((2, 2), (0, 0)))
    lines = worded(hidden, WORDINGS[1])
    for grid in ("S F F\nF F F\nF F s", "g F F\nF F F\nF F G", "S F F\nF F F\nF F G"):
        assert from_text("\n".join([grid, *lines])) == hidden


BAD = {
    "nothing": ("", "no grid found; expected one grid of n rows"),
    "words": ("once upon a time\n" * 50, "no grid found"),
    "a size of 2": ("S G\nF F", "no grid found"),
    "a size of 11": ("\n".join(["F " * 11] * 11), "no grid found"),
    "a missing row": ("Board:\nS G F F\nF F F F\nF F F F", "line 2: 3 rows of 4 letters"),
    "an unknown letter": (GRID.replace("A", "X"), "line 1: 2 rows of 3 letters"),
    "two boards": (f"{GRID}\n\n{GRID}", "grids begin at lines 1 and 5; leave"),
    "no agent": (GRID, "no line below the grid gives an agent; expected 'Agent 0: (0, 1) to (2, 3)'"),
    "a letter twice": (
        "\n".join([GRID.replace("F", "A", 1), *LINES]),
        "cell (1,2) of the grid holds 'A', the agent lines ask for F or H there",
    ),
    "one cell": (
        "\n".join([GRID, "Agent 0: start (1, 1)"]),
        "line 4: 1 cells in 'Agent 0: start (1, 1)'; expected a start and a goal",
    ),
    "a path": ("\n".join([GRID, "Agent 0: (1,1) (1,0) (0,0)"]), "line 4: 3 cells in"),
    "an agent left out": ("\n".join([GRID, LINES[0], LINES[2]]), "line 5: agent 2 where agent 1 is expected"),
    "too few agents": (
        "\n".join([GRID, *LINES[:2]]),
        "cell (0,0) of the grid holds 'a', the agent lines ask for F or H there",
    ),
    "a start on a hole": (
        "\n".join([GRID.replace("S", "H"), *LINES]),
        "cell (1,1) of the grid holds 'H', the agent lines ask for S there",
    ),
    "a hole under all": ("\n".join(["F F F\nF H F\nF F F", *LINES]), "start (1, 1) lies on a hole"),
    "six agents": (
        "\n".join(["F F F"] * 3 + [f"Agent {i}: (0,0) to (1,1)" for i in range(6)]),
        "line 9: more than 5 agents",
    ),
    "a cell outside": (
        "\n".join([GRID, "Agent 0: (1,3) to (1,0)"]),
        "line 4: cell '1, 3' lies outside of the 3x3 grid",
    ),
    "a huge integer": ("\n".join([GRID, f"Agent 0: ({'9' * 30_000},1) to (1,0)"]), "line 4: cell '999"),
    "fractions": ("\n".join([GRID, "Agent 0: (1.0,1) to (1,0)"]), "line 4: 1 cells in"),
    "a long book": (GRID + "\nF" * MAX_CHARACTERS, f"at most {MAX_CHARACTERS} are read"),
}


@pytest.mark.parametrize(("text", "complaint"), BAD.values(), ids=list(BAD))
def test_a_bad_text_is_refused_with_line_value_and_remedy(text: str, complaint: str):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        from_text(text)
    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "unit",
    ["(", "( ", "(1", "(1,", "(1, 1) ", "Agent 0: ", "Agent 0: (", "F ", "F F F\n", "\n", "- ", "9", "[-"],
)
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
