import pytest
from board_makers import repeatable
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.boards import board

from envgen.mapf.parser import MAX_CELLS, MAX_CHARACTERS, PlanParseError, parse_plan
from envgen.mapf.problem import Plan
from envgen.mapf.prompts import PromptStyle, answer, prompt

MEGABYTES_10 = 10_000_000
cells = st.tuples(st.integers(0, 999), st.integers(0, 999))
plans = st.lists(st.lists(cells, min_size=1, max_size=30).map(tuple), min_size=1, max_size=5).map(tuple)
anything = st.text(alphabet=st.characters(), max_size=300)
pieces = ["Agent", " ", "\t", "0", "12", "999", "1000", ":", "(", ")", ",", "(0,1)", "Agent 0:", "Agent 1:"]
pieces += ["\n", "\r\n", "-", "١", "x", "\0"]
fragments = st.lists(st.sampled_from(pieces), max_size=40).map("".join)


def readable(completion: str, num_agents: int) -> Plan | None:
    try:
        plan = parse_plan(completion, num_agents)
    except PlanParseError:
        return None
    assert len(plan) == num_agents
    assert all(0 <= number <= 999 for path in plan for cell in path for number in cell)
    assert all(1 <= len(path) <= MAX_CELLS for path in plan)
    return plan


@settings(repeatable, max_examples=100)
@given(anything | fragments | st.lists(anything | fragments, max_size=6).map("\n".join), st.integers(1, 5))
@example("\ud800 Agent 0: (0,0)", 1)
@example("\u2028Agent 0: (0,0)\u2028", 1)
def test_arbitrary_text_gives_a_plan_or_a_parse_error_and_nothing_else(completion: str, num_agents: int):
    readable(completion, num_agents)


@repeatable
@given(
    anything,
    plans,
    plans,
    st.sampled_from(["\n", "\n\n", "\n```\n\n", "\nAgent 0 is first.\n", "\nAgent 0: (0,0) is its start\n"]),
    st.sampled_from(["\n", "\n\nDone.", "\n```", "\nThe sum of costs is 7.\n", "\nAgent 0 waits once."]),
)
def test_the_last_answer_counts_whatever_is_said_before_between_and_after(
    reasoning: str, first: Plan, second: Plan, between: str, after: str
):
    agents = min(len(first), len(second))
    first, second = first[:agents], second[:agents]
    text = f"{reasoning}\nSo the plan is:\n{answer(first)}{between}{answer(second)}"
    assert parse_plan(text, agents) == second
    assert parse_plan(answer(second) + after, agents) == second


@repeatable
@given(plans, st.randoms(use_true_random=False), st.sampled_from(["\n", "\n\n", "\r\n", "\n \t\n"]))
def test_lines_may_come_in_any_order_with_blank_lines_between(plan: Plan, rng, newline: str):
    lines = answer(plan).splitlines()
    rng.shuffle(lines)
    assert parse_plan(newline.join(lines), len(plan)) == plan


SPACED = ["Agent 0: (0,1) (0,2)", "  Agent  0:(0,1)(0,2)  ", "\tAgent\t0: ( 0 , 1 ) ( 0,2 )\r"]


@pytest.mark.parametrize("text", [*SPACED, "Agent 0:  (00,01) (000,002)"])
def test_spacing_and_leading_zeros_do_not_matter(text: str):
    assert parse_plan(text, 1) == (((0, 1), (0, 2)),)


NO_PATHS = ["()", "(0)", "(0,1,2)", "(-1,0)", "(0.0,1)", "(0;1)", "[0,1]", "(0,1) -> (0,2)", "(0,1), (0,2)"]
NO_PATHS += ["(0,1) (0,2", "(0,1) and then rest", "(１,２)", "(1000,0)", "(1e3,0)", "(__import__('os'),0)"]
AGENTS = ["- Agent 0", "agent 0", "Agent0", "Agent 00", "Agent 10", "Agent ٠"]
NOT_ANSWERS = [*(f"Agent 0: {path}" for path in NO_PATHS), *(f"{agent}: (0,1)" for agent in AGENTS)]
NOT_ANSWERS += ["I do not know.", "Agent 0:", "Agent 0:\n(0,1) (0,2)", "", "\n" * 100]


@pytest.mark.parametrize("text", NOT_ANSWERS)
def test_text_that_is_not_in_the_answer_format_is_a_parse_error(text: str):
    with pytest.raises(PlanParseError, match="no line of the form"):
        parse_plan(text, 1)


@pytest.mark.parametrize(
    ("text", "agents", "message"),
    [
        ("Agent 0: (0,0)", 2, "no line for agent 1"),
        ("Agent 1: (0,0)", 2, "no line for agent 0"),
        ("Agent 0: (0,0)\nAgent 1: (0,1)", 1, "line for agent 1, but there are 1 agents"),
        ("Agent 0: (0,0)\nAgent 9: (0,1)", 1, "line for agent 9"),
        ("Agent 0: (0,0)\nor rather\nAgent 1: (0,1)", 2, "no line for agent 0"),
        ("Agent 0: (0,0)\nAgent 1: (0,1)\nAgent 1: (0,2)", 2, "no line for agent 0"),
        ("Agent 0: (0,0)\nAgent 1: (oops)\n", 2, "no line for agent 1"),
    ],
)
def test_an_incomplete_or_overfull_block_names_the_agent(text: str, agents: int, message: str):
    with pytest.raises(PlanParseError, match=message):
        parse_plan(text, agents)


def test_a_path_holds_at_most_500_cells():
    assert len(parse_plan("Agent 0:" + " (0,0)" * MAX_CELLS, 1)[0]) == MAX_CELLS == 500
    assert readable("Agent 0:" + " (0,0)" * (MAX_CELLS + 1), 1) is None


FLOODS = ["a", "(", "(0,0) ", "((((0,", "١", " ", "\t", "\n", " \n", "Agent ", "Agent 0:", "Agent 0: (0,0) "]
FLOODS += ["Agent 0: (0,0)\r", "Agent 0: (\n", "\0", "😀"]
BLANKS = " " * 60_000
BACKTRACK = [f"Agent 0: (0,0){BLANKS}x", f"Agent 0:{BLANKS}x", f"Agent{BLANKS}0", f"{BLANKS}Agent 0"]
BACKTRACK += [f"Agent 0: ({BLANKS}x", f"Agent 0: (0{BLANKS},x", "Agent 0:" + "(111,111)" * 500 + "("]
BACKTRACK += ["Agent 0:" + (" " * 120 + "(0,0)") * 500 + "x"]
BACKTRACK += ["Agent 0:" + " (0,0)" * 499 + " " * 40_000 + "\r\t" * 5_000 + "x"]


@pytest.mark.parametrize("flood", FLOODS)
def test_ten_megabytes_of_one_thing_hold_no_plan(flood: str):
    text = flood * (MEGABYTES_10 // len(flood))
    assert readable(text, 1) is None
    assert readable("Agent 0: (0,0)" + text + "x", 1) is None


@pytest.mark.parametrize("line", BACKTRACK)
def test_lines_made_to_make_a_matcher_backtrack_are_refused(line: str):
    assert readable(line, 1) is None


def test_only_the_end_of_a_long_completion_is_read():
    assert parse_plan("x" * MEGABYTES_10 + "\nAgent 0: (0,0) (0,1)", 1) == (((0, 0), (0, 1)),)
    assert readable("Agent 0: (0,0) (0,1)\n" + "x" * MAX_CHARACTERS, 1) is None
    assert readable("Agent 0: (0,0) (0,1)\n" + "\n" * 1_000, 1) == (((0, 0), (0, 1)),)
    plan = tuple(tuple((999, 999) for _ in range(MAX_CELLS)) for _ in range(5))
    assert parse_plan("x" * MAX_CHARACTERS + "\n" + answer(plan), 5) == plan


def test_the_example_in_the_prompt_is_in_the_answer_format():
    text = prompt(board("parallel"), PromptStyle.BOARD)
    assert parse_plan(text.splitlines()[-1], 1) == (((0, 1), (0, 1), (0, 2)),)
