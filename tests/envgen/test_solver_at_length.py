"""The solver against exhaustion, and its two searches against each other, on tens of thousands of boards."""

import random

import pytest
from board_makers import make_problem, random_problem
from brute_force import exhaust

import envgen.mapf.solver.solve as solver
from envgen.errors import SolverError
from envgen.mapf.solver.solve import JOINT_ONLY, solve_many

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
def test_cost_and_waits_are_those_of_exhaustion(size: int, agents: int, holes: tuple[int, int], boards: int):
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


def test_the_two_searches_agree_on_ten_thousand_boards(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        solver, "LARGEST_TABLE", 1 << 16
    )  # what the joint search cannot decide in this, it leaves
    rng = random.Random("two searches")
    compared = large = left = 0
    while compared < 10_000:
        size, agents = rng.randint(3, 10), rng.randint(2, 5)
        problems = [
            random_problem(rng, size, rng.randint(0, int(0.35 * size * size)), agents) for _ in range(20)
        ]
        expected = solve_many(problems)
        for problem, solution in zip(problems, expected, strict=True):
            try:
                (other,) = solve_many([problem], JOINT_ONLY)
            except SolverError:
                left += 1
                continue
            assert (other and (other.sum_of_costs, other.waits)) == (
                solution and (solution.sum_of_costs, solution.waits)
            ), problem
            compared += 1
            large += size == 10 and agents == 5
    assert large > 100
    assert left < 300
