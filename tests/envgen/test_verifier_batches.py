"""Whatever the plan or the text: the compiled batches say exactly what the rules in plain Python say."""

import random
from collections.abc import Callable

import pytest
from board_makers import all_cells, make_problem, problems, repeatable, solved_instances
from hypothesis import example, given, settings
from hypothesis import strategies as st
from plain_verifier import expected_plan, expected_verdict
from support.boards import board

from envgen.mapf.judgement import Finding
from envgen.mapf.judging import Plans as PlanArrays
from envgen.mapf.judging import boards_of, cells_of, judge, read_cells
from envgen.mapf.parser import MAX_CELLS, PlanParseError, parse_plan, plan_lines
from envgen.mapf.problem import Instance, Path, Plan, Problem, Solution
from envgen.mapf.prompts import answer
from envgen.mapf.verifier import FailureCategory, Verdict, trace, verify, verify_batch, verify_plan

CLASSES = [(3, 1, 2), (3, 2, 3), (4, 3, 2), (5, 5, 1), (6, 8, 4), (8, 12, 4), (10, 15, 5)]
INSTANCES = [
    i
    for seed, (size, holes, agents) in enumerate(CLASSES)
    for i in solved_instances(seed, 12, size, holes, agents)
]
NEAR = st.tuples(st.integers(-1, 10), st.integers(-1, 10))
FAR = st.tuples(st.integers(0, 999), st.integers(0, 999))
ANYWHERE = st.tuples(st.integers(-(2**62), 2**62), st.integers(-(2**62), 2**62))


@st.composite
def walks(draw: st.DrawFn, problem: Problem, index: int) -> Path:
    """Mostly neighbouring cells from mostly the start, for up to 30 steps."""
    path = [problem.agents[index].start if draw(st.integers(0, 9)) else draw(NEAR)]
    for row, column in draw(
        st.lists(st.sampled_from([(-1, 0), (1, 0), (0, -1), (0, 1), (0, 0)]), max_size=30)
    ):
        path.append((path[-1][0] + row, path[-1][1] + column))
    return (*path, problem.agents[index].goal) if draw(st.booleans()) else tuple(path)


@st.composite
def random_walks(draw: st.DrawFn) -> tuple[Problem, Plan]:
    problem = draw(problems())
    return problem, tuple(draw(walks(problem, index)) for index in range(problem.num_agents))


@st.composite
def mutants(draw: st.DrawFn) -> tuple[Problem, Plan]:
    """An optimal plan with up to three changes."""
    instance = draw(st.sampled_from(INSTANCES))
    plan = [list(path) for path in instance.solution.plan]
    for _ in range(draw(st.integers(0, 3))):
        path = plan[draw(st.integers(0, len(plan) - 1))]
        place = draw(st.integers(0, len(path) - 1))
        change = draw(st.sampled_from(["replace", "wait", "insert", "cut", "drop", "extend", "exchange"]))
        if change == "replace":
            path[place] = draw(NEAR | FAR)
        elif change == "wait":
            path[place:place] = [path[place]] * draw(st.integers(1, 3))
        elif change == "insert":
            path.insert(place, draw(NEAR))
        elif change == "cut":
            del path[place + 1 :]
        elif change == "drop" and len(path) > 1:
            del path[place]
        elif change == "extend":
            path += [path[-1]] * draw(st.integers(0, 3)) + draw(st.lists(NEAR, max_size=3))
        else:
            other = plan[draw(st.integers(0, len(plan) - 1))]
            path[place:], other[place:] = (other[place:] or other[-1:]), path[place:]
    return instance.problem, tuple(map(tuple, plan))


@st.composite
def hostile_plans(draw: st.DrawFn) -> tuple[Problem, Plan]:
    problem = draw(problems())
    return problem, tuple(
        tuple(draw(st.lists(FAR | ANYWHERE | NEAR, min_size=1, max_size=12))) for _ in problem.agents
    )


@settings(repeatable, max_examples=300)
@given(random_walks() | mutants() | hostile_plans(), st.integers(0, 60) | st.none())
def test_any_plan_gets_the_verdict_of_the_plain_rules(case: tuple[Problem, Plan], optimum: int | None):
    problem, plan = case
    assert verify_plan(problem, plan, optimum) == expected_verdict(problem, plan, optimum)


@pytest.mark.parametrize(
    "instance", INSTANCES[::5], ids=lambda instance: f"{instance.problem.size}x{instance.problem.size}"
)
def test_walks_around_an_optimal_plan_get_the_verdict_of_the_plain_rules(instance: Instance):
    """Many plans that go wrong late: each agent in turn strays by one step somewhere and stays where it came
    to."""
    cells = all_cells(instance.problem.size + 1)
    seen = set()
    for agent, path in enumerate(instance.solution.plan):
        for step in range(1, len(path) + 1):
            for cell in cells:
                plan = (
                    *instance.solution.plan[:agent],
                    (*path[:step], cell),
                    *instance.solution.plan[agent + 1 :],
                )
                verdict = verify_plan(instance.problem, plan, instance.solution.sum_of_costs)
                assert verdict == expected_verdict(instance.problem, plan, instance.solution.sum_of_costs)
                seen.add(verdict.category)
    assert len(seen) >= 3


def test_the_longest_paths_are_judged_to_their_end():
    problem = make_problem(
        10, ((5, 4),), ((0, 0), (9, 9), (0, 9), (9, 0), (4, 4)), ((0, 1), (9, 8), (1, 9), (8, 0), (4, 5))
    )
    to_and_fro = [tuple((a.start, a.goal)[step % 2] for step in range(MAX_CELLS)) for a in problem.agents]
    assert verify_plan(problem, tuple(to_and_fro)).makespan == MAX_CELLS - 1
    for agent in range(5):
        plan = tuple(
            (*path[:-1], (5, 4)) if index == agent else path for index, path in enumerate(to_and_fro)
        )
        verdict = verify(Instance(problem=problem, solution=SOLUTION), answer(plan))
        assert verdict == expected_verdict(problem, plan)
        assert verdict.step == MAX_CELLS - 1
        assert verdict.category is (
            FailureCategory.HOLE_COLLISION if agent == 4 else FailureCategory.ILLEGAL_MOVE
        )


SOLUTION = Solution(sum_of_costs=5, makespan=1, wait_required=False, waits=0, plan=(((0, 0),),))


def expected(instance: Instance, completion: str) -> Verdict:
    try:
        plan = expected_plan(completion, instance.problem.num_agents)
    except PlanParseError as error:
        return Verdict(valid=False, category=FailureCategory.PARSE_ERROR, detail=str(error))
    return expected_verdict(instance.problem, plan, instance.solution.sum_of_costs)


@settings(repeatable, max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(INSTANCES[::6]),
            st.sampled_from(INSTANCES[::6]),
            st.text("0129 (),\nAgent:", max_size=3),
        ),
        max_size=20,
    )
)
def test_a_batch_judges_each_answer_on_its_own_board(drawn: list[tuple[Instance, Instance, str]]):
    instances = [instance for instance, _, _ in drawn]
    texts = [answer(other.solution.plan) + tail for _, other, tail in drawn]
    assert verify_batch(instances, texts) == [
        expected(i, text) for i, text in zip(instances, texts, strict=True)
    ]


def test_a_batch_of_hostile_answers_leaves_the_others_as_they_are():
    rng = random.Random(0)
    garbage = [
        "",
        "Agent 0: (0,0)",
        "Agent 7: (0,0)",
        "\0",
        "Agent 0:" + "(999,999)" * 501,
        "\ud800",
        "Agent ٠: (٠,٠)",
        "(" * 70_000,
    ]
    pairs = [(i, answer(i.solution.plan)) for i in INSTANCES] + [
        (i, text) for i in INSTANCES[::9] for text in garbage
    ]
    pairs += [
        (i, "\n".join(f"Agent {a}:" + "(999,999)" * 500 for a in range(i.problem.num_agents)))
        for i in INSTANCES[::9]
    ]
    rng.shuffle(pairs)
    verdicts = verify_batch([i for i, _ in pairs], [text for _, text in pairs])
    assert verdicts == [expected(i, text) for i, text in pairs] == [verify(i, text) for i, text in pairs]
    assert sum(v.optimal for v in verdicts) == len(INSTANCES)


def test_an_empty_batch_has_no_verdicts_and_numbers_have_to_agree():
    assert verify_batch([], []) == []
    with pytest.raises(ValueError, match=r"shorter|longer"):
        verify_batch(INSTANCES[:2], [""])


@pytest.mark.parametrize("plan", [(), (((0, 0),),), (((0, 0),), ()), (((0, 0),), ((2, 0),), ((1, 1),))])
def test_a_plan_without_one_path_an_agent_is_refused(plan: Plan):
    with pytest.raises(ValueError, match="path"):
        verify_plan(board("parallel"), plan)


def test_every_finding_is_an_outcome_of_some_plan():
    """So that the batches above compare all of them."""
    problem = make_problem(3, ((0, 1),), ((0, 0), (1, 0)), ((2, 0), (1, 2)))
    plans = {
        Finding.NOTHING: (((0, 0), (0, 0), (1, 0), (2, 0)), ((1, 0), (1, 1), (1, 2))),
        Finding.WRONG_START: (((0, 0),), ((1, 1),)),
        Finding.OFF_GRID: (((0, 0),), ((1, 0), (1, -1))),
        Finding.JUMP: (((0, 0), (1, 1)), ((1, 0),)),
        Finding.HOLE: (((0, 0), (0, 1)), ((1, 0),)),
        Finding.SAME_CELL: (((0, 0), (1, 0)), ((1, 0),)),
        Finding.SWAP: (((0, 0), (1, 0)), ((1, 0), (0, 0))),
        Finding.GOAL_MISSED: (((0, 0),), ((1, 0),)),
    }
    assert list(plans) == list(Finding)
    for finding, plan in plans.items():
        stops, cells = cells_of(plan)
        boards, rows = boards_of([problem])
        assert judge(boards, PlanArrays(rows, rows, stops, cells))["finding"].tolist() == [finding]
        assert verify_plan(problem, plan) == expected_verdict(problem, plan)


pieces = [
    "Agent",
    " ",
    "\t",
    "0",
    "1",
    "12",
    "999",
    "1000",
    ":",
    "(",
    ")",
    ",",
    "(0,1)",
    " (1,1)",
    "( 07 ,\t000 )",
    "Agent 0:",
    "Agent 1:",
    "Agent 2:",
]
pieces += [
    "\nAgent 0: (0,0)",
    "\nAgent 1: (10,3) (2,3)",
    "\n",
    "\r\n",
    "\r",
    "\n\n",
    "-",
    "١",
    "x",
    "\0",
    "\v",
    "\x1c",
    "\x85",
    "\u2028",
    "\xa0",
    "\ud800",
]


def read(parse: Callable[[str, int], Plan], text: str, num_agents: int) -> Plan | str:
    """The plan, or why there is none."""
    try:
        return parse(text, num_agents)
    except PlanParseError as error:
        return str(error)


@settings(repeatable, max_examples=500)
@given(st.lists(st.sampled_from(pieces) | st.text(max_size=2), max_size=30).map("".join), st.integers(1, 3))
@example("Agent 0: (0,1)\n\u2028\x1c\xa0\nAgent 1: (1,1)", 2)
@example("Agent 0: (0,1)\r\rx\nAgent 1: (1,1)", 2)
def test_any_text_is_read_as_by_the_plain_grammar(text: str, num_agents: int):
    plan = read(expected_plan, text, num_agents)
    assert read(parse_plan, text, num_agents) == plan
    if isinstance(plan, str):
        return
    stops, cells = read_cells(plan_lines(text, num_agents))
    assert [stops.tolist(), cells.tolist()] == [array.tolist() for array in cells_of(plan)]


@settings(repeatable, max_examples=100)
@given(mutants() | random_walks())
def test_a_trace_holds_every_step_up_to_the_first_violation(case: tuple[Problem, Plan]):
    problem, plan = case
    verdict = expected_verdict(problem, plan)
    steps = trace(plan, verdict)
    for index, path in enumerate(plan):
        walked = [cells[index] for cells in steps]
        assert walked == [path[min(step, len(path) - 1)] for step in range(len(steps))]
    whole = verdict.valid or verdict.category is FailureCategory.GOAL_NOT_REACHED
    assert len(steps) == (max(map(len, plan)) if whole else verdict.step + 1)
    if verdict.cell is not None:
        assert steps[-1][verdict.agent] == verdict.cell
