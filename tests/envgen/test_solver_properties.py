"""What holds between a board and its images, and between a board and easier ones; half of the boards need a
wait."""

from board_makers import SYMMETRIES, problems, repeatable, solved_instances, transformed
from hypothesis import given, settings
from hypothesis import strategies as st

from envgen.mapf.problem import Problem
from envgen.mapf.solver.solve import solve

WAITING = [
    instance.problem
    for seed, (size, holes, agents) in enumerate([(3, 3, 2), (4, 5, 2), (4, 4, 3), (5, 9, 3), (4, 6, 4)])
    for instance in solved_instances(seed, 60, size, holes, agents)
    if instance.solution.wait_required
]
boards = problems(max_size=5, max_agents=3, max_hole_share=0.3) | st.sampled_from(WAITING)
property_test = settings(repeatable, max_examples=60)


def measures(problem: Problem) -> tuple[int, bool, int] | None:
    """Least cost, wait label and fewest waits; None without a plan."""
    solution = solve(problem)
    return solution and (solution.sum_of_costs, solution.wait_required, solution.waits)


def test_many_of_the_boards_need_a_wait():
    assert len(WAITING) > 20


@property_test
@given(boards, st.data())
def test_all_measures_are_the_same_in_every_mirror_and_agent_order(problem: Problem, data: st.DataObject):
    expected = measures(problem)
    for symmetry in SYMMETRIES:
        order = data.draw(st.permutations(range(problem.num_agents)))
        assert measures(transformed(problem, symmetry, order)) == expected


@property_test
@given(boards, st.data())
def test_without_one_of_its_holes_or_agents_a_board_costs_no_more(problem: Problem, data: st.DataObject):
    found = measures(problem)
    if found is None:
        return
    easier = [
        problem.model_copy(update={"holes": tuple(hole for hole in problem.holes if hole != filled)})
        for filled in problem.holes
    ]
    if problem.num_agents > 1:
        easier += [
            problem.model_copy(update={"agents": tuple(agent for agent in problem.agents if agent != gone)})
            for gone in problem.agents
        ]
    if not easier:
        return
    less = measures(data.draw(st.sampled_from(easier)))
    assert less is not None
    assert less[0] <= found[0]
