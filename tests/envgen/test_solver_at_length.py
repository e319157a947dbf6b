"""The solver against exhaustion on tens of thousands of boards."""

import random

import pytest
from board_makers import make_problem, random_problem
from brute_force import exhaust

from envgen.mapf.solver.solve import solve_many

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

STARTS = 60
# size, agents, holes, pairs of holes and goals; each with 60 starts
CLASSES = [
    (3, 2, (0, 3), 50),
    (3, 3, (0, 4), 50),
    (3, 4, (1, 4), 30),
    (4, 2, (0, 7), 60),
    (4, 3, (2, 8), 50),
    (4, 4, (4, 7), 12),
    (5, 2, (0, 12), 50),
    (5, 3, (5, 11), 30),
    (5, 4, (11, 13), 6),
    (6, 2, (0, 18), 9),
]


@pytest.mark.parametrize(("size", "agents", "holes", "boards"), CLASSES)
def test_costs_and_waits_are_those_of_exhaustion(size: int, agents: int, holes: tuple[int, int], boards: int):
    rng = random.Random(f"length {size} {agents}")
    compared = solvable = 0
    for _ in range(boards):
        first = random_problem(rng, size, rng.randint(*holes), agents)
        goals = tuple(agent.goal for agent in first.agents)
        truth = exhaust(first)
        problems = [
            make_problem(size, first.holes, tuple(rng.sample(truth.free, agents)), goals)
            for _ in range(STARTS)
        ]
        for problem, solution in zip(problems, solve_many(problems), strict=True):
            starts = tuple(agent.start for agent in problem.agents)
            expected = (
                (truth.optimum(starts), truth.fewest_waits[starts], truth.wait_required(starts))
                if truth.optimum(starts) is not None
                else None
            )
            assert (
                solution and (solution.sum_of_costs, solution.waits, solution.wait_required)
            ) == expected, problem
            compared += 1
            solvable += solution is not None
    assert compared == boards * STARTS
    assert solvable > 5
