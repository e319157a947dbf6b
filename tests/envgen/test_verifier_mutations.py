"""The solver's plans on random boards are optimal, and each way to break one falls in its category with
agent, step and cell."""

from collections.abc import Callable
from itertools import combinations, permutations

import pytest
from board_makers import all_cells, apart, at, problems, repeatable, replaced
from brute_force import legal
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from envgen.mapf.problem import Cell, Instance, Plan
from envgen.mapf.prompts import answer
from envgen.mapf.solver.solve import solve
from envgen.mapf.verifier import FailureCategory, Verdict, verify

Broken = tuple[Plan, int, int, Cell]
"""A broken plan with the agent, step and cell at which it breaks first."""
property_test = settings(
    repeatable, max_examples=25, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    problem = draw(problems(max_size=7, max_agents=4, max_hole_share=0.3))
    solution = solve(problem)
    assume(solution is not None)
    return Instance(problem=problem, solution=solution)


def up_to(plan: Plan, agent: int, step: int, cell: Cell) -> Plan:
    """The plan with an agent that follows its path before `step`, then enters `cell` and stays."""
    return replaced(plan, agent, (*(at(plan[agent], s) for s in range(step)), cell))


def wrong_starts(instance: Instance) -> list[Broken]:
    plan, cells = instance.solution.plan, all_cells(instance.problem.size)
    return [
        (replaced(plan, agent, (cell, *path[1:])), agent, 0, cell)
        for agent, path in enumerate(plan)
        for cell in cells
        if cell != path[0]
    ]


def entering(instance: Instance, cells: Callable[[Cell], list[Cell]]) -> list[Broken]:
    """Return plans in which an agent, at any step up to one past its end, enters one of `cells(its cell)`."""
    plan = instance.solution.plan
    return [
        (up_to(plan, agent, step, cell), agent, step, cell)
        for agent, path in enumerate(plan)
        for step in range(1, len(path) + 1)
        for cell in cells(path[step - 1])
    ]


def jumps(instance: Instance) -> list[Broken]:
    board = all_cells(instance.problem.size)
    return entering(instance, lambda here: [cell for cell in board if apart(here, cell) > 1])


def steps_off_the_grid(instance: Instance) -> list[Broken]:
    def outside(here: Cell) -> list[Cell]:
        beside = [(here[0] + 1, here[1]), (here[0], here[1] + 1)]
        return [cell for cell in beside if max(cell) == instance.problem.size]

    return entering(instance, outside)


def steps_into_holes(instance: Instance) -> list[Broken]:
    holes = instance.problem.holes
    return entering(instance, lambda here: [hole for hole in holes if apart(here, hole) == 1])


def meetings(instance: Instance) -> list[Broken]:
    """An agent enters the cell in which another is after the step; its own cell is entered by nobody."""
    broken, plan = [], instance.solution.plan
    for mover, other in permutations(range(len(plan)), 2):
        for step in range(1, instance.solution.makespan + 2):
            here, target = at(plan[mover], step - 1), at(plan[other], step)
            if apart(here, target) == 1 and all(
                at(path, step) != here for index, path in enumerate(plan) if index != mover
            ):
                broken.append((up_to(plan, mover, step, target), max(mover, other), step, target))
    return broken


def exchanges(instance: Instance) -> list[Broken]:
    """Two neighbours swap cells that nobody else enters in that step."""
    broken, plan = [], instance.solution.plan
    for first, second in combinations(range(len(plan)), 2):
        for step in range(1, instance.solution.makespan + 2):
            here, there = at(plan[second], step - 1), at(plan[first], step - 1)
            bystanders = {at(path, step) for index, path in enumerate(plan) if index not in (first, second)}
            if apart(here, there) == 1 and not bystanders & {here, there}:
                swapped = up_to(up_to(plan, second, step, there), first, step, here)
                broken.append((swapped, second, step, there))
    return broken


def dropped_cells(instance: Instance) -> list[Broken]:
    """A path lacks its last cell, and nobody enters the cell on which its agent then rests."""
    broken, plan = [], instance.solution.plan
    for agent, path in enumerate(plan):
        if len(path) > 1:
            later = [
                at(other, step)
                for index, other in enumerate(plan)
                if index != agent
                for step in range(len(path) - 1, instance.solution.makespan + 1)
            ]
            if path[-2] not in later:
                broken.append((replaced(plan, agent, path[:-1]), agent, len(path) - 2, path[-2]))
    return broken


KINDS = {
    "wrong start": (wrong_starts, FailureCategory.ILLEGAL_MOVE, "begins at"),
    "jump": (jumps, FailureCategory.ILLEGAL_MOVE, "jumps from"),
    "off the grid": (steps_off_the_grid, FailureCategory.ILLEGAL_MOVE, "leaves the"),
    "hole": (steps_into_holes, FailureCategory.HOLE_COLLISION, "enters the hole"),
    "same cell": (meetings, FailureCategory.CONFLICT, "are both in"),
    "swap": (exchanges, FailureCategory.CONFLICT, "swap"),
    "dropped cell": (dropped_cells, FailureCategory.GOAL_NOT_REACHED, "ends at"),
}


@pytest.mark.parametrize(("mutants", "category", "words"), KINDS.values(), ids=list(KINDS))
@property_test
@given(data=st.data())
def test_a_broken_plan_falls_in_its_category_with_agent_step_and_cell(
    data: st.DataObject, mutants, category: FailureCategory, words: str
):
    instance = data.draw(instances())
    candidates = mutants(instance)
    assume(candidates)
    plan, agent, step, cell = data.draw(st.sampled_from(candidates))
    verdict = verify(instance, f"So:\n{answer(plan)}\n")
    assert (verdict.valid, verdict.optimal) == (False, False)
    assert (verdict.category, verdict.agent, verdict.step, verdict.cell) == (category, agent, step, cell)
    assert words in verdict.detail
    assert not legal(instance.problem, plan)
    assert verdict.arrived == sum(
        path[-1] == a.goal for path, a in zip(plan, instance.problem.agents, strict=True)
    ) / len(plan)
    last = max(map(len, plan)) - 1
    if category is FailureCategory.GOAL_NOT_REACHED:
        assert (verdict.legal_steps, verdict.legal_share) == (last, 1)
    else:
        before = max(step - 1, 0)
        assert (verdict.legal_steps, verdict.legal_share) == (before, before / max(last, 1))


@property_test
@given(instances(), st.data())
def test_an_answer_that_lost_a_sign_of_its_form_is_a_parse_error(instance: Instance, data: st.DataObject):
    text = answer(instance.solution.plan)
    place = data.draw(st.sampled_from([index for index, letter in enumerate(text) if letter in "Agent:(),"]))
    verdict = verify(instance, text[:place] + text[place + 1 :])
    assert verdict == Verdict(valid=False, category=FailureCategory.PARSE_ERROR, detail=verdict.detail)
    assert (verdict.arrived, verdict.legal_steps, verdict.legal_share) == (0, 0, 0)
