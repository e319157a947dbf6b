"""Verdicts: what is valid and optimal, what it costs, and which violation counts."""

import random
from collections import Counter

import pytest
from board_makers import all_cells, apart, at, make_problem, problems, repeatable, replaced, solved_instances
from brute_force import legal
from hypothesis import given, settings
from hypothesis import strategies as st
from support.boards import board

from envgen.mapf.parser import MAX_CELLS
from envgen.mapf.problem import Cell, Instance, Plan, Problem
from envgen.mapf.prompts import answer
from envgen.mapf.verifier import FailureCategory, Verdict, trace, verify, verify_plan

CELLS = st.tuples(st.integers(-1, 10), st.integers(-1, 10))
WORDS = ("begins at", "jumps from", "leaves the", "enters the hole", "are both in", "swap", "ends at")
STEPS = [(-1, 0), (1, 0), (0, -1), (0, 1), (0, 0)]


@pytest.fixture(scope="module")
def instances() -> list[Instance]:
    classes = [(3, 1, 2), (3, 2, 3), (4, 3, 2), (4, 4, 3), (5, 5, 2), (6, 8, 4), (8, 12, 4), (10, 20, 2)]
    return [
        instance
        for seed, (size, holes, agents) in enumerate(classes)
        for instance in solved_instances(seed, 15, size, holes, agents)
    ]


def test_optimal_plans_are_valid_and_optimal(instances: list[Instance]):
    for instance in instances:
        plan, solution = instance.solution.plan, instance.solution
        best = {"valid": True, "optimal": True, **solution.model_dump(include={"sum_of_costs", "makespan"})}
        assert verify(instance, answer(plan)) == Verdict.model_validate(best)
        assert legal(instance.problem, plan)


def test_a_wait_costs_before_the_last_arrival_and_is_free_after_it(instances: list[Instance]):
    rng = random.Random(2)
    for instance in instances:
        plan, solution = instance.solution.plan, instance.solution
        padded = tuple((*path, *[path[-1]] * rng.randint(0, 40)) for path in plan)
        assert verify(instance, answer(padded)) == verify(instance, answer(plan))
        verdict = verify(instance, answer(tuple((path[0], *path) for path in plan)))
        moving = sum(len(path) > 1 for path in plan)
        assert (verdict.valid, verdict.optimal, verdict.category) == (True, moving == 0, None)
        assert verdict.sum_of_costs == solution.sum_of_costs + moving
        assert verdict.makespan == solution.makespan + (moving > 0)


def test_an_agent_that_leaves_its_goal_and_comes_back_pays_until_its_last_arrival(instances: list[Instance]):
    detours = 0
    for instance in instances:
        plan, makespan = instance.solution.plan, instance.solution.makespan
        ends = {path[-1] for path in plan}
        for agent, path in enumerate(plan):
            for aside in all_cells(instance.problem.size):
                if apart(aside, path[-1]) != 1 or aside in instance.problem.holes or aside in ends:
                    continue
                detour = replaced(plan, agent, (*(at(path, s) for s in range(makespan + 1)), aside, path[-1]))
                verdict = verify(instance, answer(detour))
                assert (verdict.valid, verdict.optimal) == (True, False)
                assert verdict.makespan == makespan + 2
                assert verdict.sum_of_costs == instance.solution.sum_of_costs - (len(path) - 1) + makespan + 2
                assert legal(instance.problem, detour)
                detours += 1
    assert detours > 100


Violation = tuple[FailureCategory, int, int, Cell]
"""Category, agent, step and cell."""


def first_violation(problem: Problem, plan: Plan) -> Violation | None:
    """The violation that counts: of the earliest step; in a step moves, then holes, then conflicts."""
    board, starts = set(all_cells(problem.size)), [agent.start for agent in problem.agents]
    for step in range(max(map(len, plan))):
        before, after = ([at(path, max(time, 0)) for path in plan] for time in (step - 1, step))
        moving = [agent for agent, path in enumerate(plan) if step < len(path)]
        for agent in moving:
            beside = after[agent] in board and apart(after[agent], before[agent]) < 2
            if not (beside if step else after[agent] == starts[agent]):
                return FailureCategory.ILLEGAL_MOVE, agent, step, after[agent]
        for agent in moving:
            if after[agent] in problem.holes:
                return FailureCategory.HOLE_COLLISION, agent, step, after[agent]
        for second in range(len(plan)):
            for first in range(second):
                swap = (after[first], after[second]) == (before[second], before[first])
                if after[first] == after[second] or swap:
                    return FailureCategory.CONFLICT, second, step, after[second]
    for agent, path in enumerate(plan):
        if path[-1] != problem.agents[agent].goal:
            return FailureCategory.GOAL_NOT_REACHED, agent, len(path) - 1, path[-1]
    return None


def check_verdict(problem: Problem, plan: Plan) -> Verdict:
    """Hold the verdict on any plan against the rules and against moving the agents; return it."""
    verdict, violation = verify_plan(problem, plan), first_violation(problem, plan)
    assert verdict.valid == legal(problem, plan) == (violation is None)
    assert not verdict.optimal, "the optimum is not known"
    assert (verdict.category, verdict.agent, verdict.step, verdict.cell) == (violation or (None,) * 4)
    ends = [path[-1] == agent.goal for path, agent in zip(plan, problem.agents, strict=True)]
    assert verdict.arrived == sum(ends) / len(plan)
    last, steps = max(map(len, plan)) - 1, trace(plan, verdict)
    if violation and violation[0] is not FailureCategory.GOAL_NOT_REACHED:
        before = max(violation[2] - 1, 0)
        assert verdict.legal_share == before / max(last, 1)
        assert len(steps) == violation[2] + 1
    else:
        assert verdict.legal_share == 1
        assert len(steps) == last + 1
    assert all(cells == tuple(at(path, step) for path in plan) for step, cells in enumerate(steps))
    return verdict


@st.composite
def walks(draw: st.DrawFn) -> tuple[Problem, Plan]:
    """A board, and for each agent mostly neighbouring cells from mostly its start, often to its goal."""
    problem, plan = draw(problems(max_size=5, max_agents=3)), []
    for agent in problem.agents:
        path = [agent.start if draw(st.integers(0, 9)) else draw(CELLS)]
        for row, column in draw(st.lists(st.sampled_from(STEPS), max_size=10)):
            path.append((path[-1][0] + row, path[-1][1] + column))
        if draw(st.booleans()) and apart(path[-1], agent.goal) < 2:
            path.append(agent.goal)
        plan.append(tuple(path))
    return problem, tuple(plan)


@settings(repeatable, max_examples=120)
@given(walks())
def test_any_plan_is_judged_by_its_first_violation(case: tuple[Problem, Plan]):
    check_verdict(*case)


def test_every_way_to_break_an_optimal_plan_is_judged_by_its_first_violation(instances: list[Instance]):
    """An agent leaves its path at any step for any cell and stays, two agents swap, or a path ends early."""
    rng, violations = random.Random(3), Counter()
    for instance in instances[::6]:
        plan, cells = instance.solution.plan, all_cells(instance.problem.size + 1)
        broken = [replaced(plan, agent, path[:-1]) for agent, path in enumerate(plan) if len(path) > 1]
        for agent, path in enumerate(plan):
            for step in range(len(path) + 1):
                way = tuple(at(path, before) for before in range(step))
                beside = [cell for cell in cells if step and apart(cell, way[-1]) < 2]
                broken += [replaced(plan, agent, (*way, cell)) for cell in (*beside, *rng.sample(cells, 3))]
        for second, step in ((b, s) for b in range(1, len(plan)) for s in range(1, len(plan[b]) + 1)):
            here, there = (at(plan[agent], step - 1) for agent in (second, 0))
            ways = [tuple(at(plan[agent], before) for before in range(step)) for agent in (0, second)]
            broken.append(replaced(replaced(plan, 0, (*ways[0], here)), second, (*ways[1], there)))
        details = [check_verdict(instance.problem, each).detail for each in broken]
        violations.update(words for detail in details for words in WORDS if words in detail)
    assert min(violations[words] for words in WORDS) > 30


def test_an_answer_that_lost_a_sign_of_its_form_is_a_parse_error(instances: list[Instance]):
    for instance in instances[::5]:
        text = answer(instance.solution.plan)
        for place in (index for index, letter in enumerate(text) if letter in "Agent:(),"):
            verdict = verify(instance, text[:place] + text[place + 1 :])
            reason = {"category": FailureCategory.PARSE_ERROR, "detail": verdict.detail}
            assert verdict == Verdict(valid=False, **reason)
            assert (verdict.arrived, verdict.legal_share) == (0, 0)


def test_the_longest_paths_are_judged_to_their_end():
    problem = make_problem(3, ((2, 2),), ((0, 0), (2, 0)), ((0, 1), (2, 1)))
    to_and_fro = [tuple((a.start, a.goal)[step % 2] for step in range(MAX_CELLS)) for a in problem.agents]
    assert verify_plan(problem, tuple(to_and_fro)).makespan == MAX_CELLS - 1
    verdict = verify_plan(problem, (to_and_fro[0], (*to_and_fro[1], (2, 2))))
    assert (verdict.category, verdict.step) == (FailureCategory.HOLE_COLLISION, MAX_CELLS)


@pytest.mark.parametrize("plan", [(), (((0, 0),),), (((0, 0),), ()), (((0, 0),), ((2, 0),), ((1, 1),))])
def test_a_plan_without_one_path_an_agent_is_refused(plan: Plan):
    with pytest.raises(ValueError, match="path"):
        verify_plan(board("parallel"), plan)
