import random
from itertools import combinations, permutations

import pytest
from board_makers import SYMMETRIES, all_cells, image, make_problem, problems, random_problem, repeatable
from brute_force import Exhausted, exhaust, legal, steps_from
from hypothesis import given
from support.boards import board, solve

import envgen.mapf.solver.solve as solver
from envgen.errors import DataError
from envgen.mapf.problem import Cell, Problem, Solution, moves_of
from envgen.mapf.solver.solve import BY_SIZE, JOINT_ONLY, TREE_ONLY, solve_many
from envgen.mapf.verifier import verify_plan

# size, holes, agents, boards, starts a board
RANDOM_CLASSES = [
    *[(3, 0, 3, 6, 120), (3, 1, 3, 8, 120), (3, 2, 3, 8, 120), (3, 3, 3, 12, 40), (3, 1, 4, 2, 100)],
    *[(3, 2, 4, 6, 60), (3, 3, 4, 8, 30), (3, 3, 5, 4, 30), (4, 0, 2, 10, 60), (4, 3, 2, 20, 60)],
    *[(4, 6, 2, 30, 40), (4, 5, 3, 4, 60), (4, 7, 3, 10, 40), (4, 8, 4, 4, 30), (5, 5, 2, 10, 40)],
    *[(5, 10, 2, 20, 30), (6, 7, 2, 6, 40), (6, 14, 2, 15, 30)],
]
LARGE_CLASSES = [(3, 1, 2, 50), (3, 2, 3, 50), (3, 2, 4, 30), (4, 4, 2, 60), (4, 6, 3, 50), (4, 6, 4, 12)]
LARGE_CLASSES += [(5, 7, 2, 50), (5, 8, 3, 30), (5, 12, 4, 6), (6, 9, 2, 9)]
SLOW = [pytest.mark.slow, pytest.mark.timeout(1500)]
RANDOM_CLASSES += [pytest.param(*case, 60, marks=SLOW) for case in LARGE_CLASSES]


def compare(problems: list[Problem], truth: Exhausted, tree_nodes: int = BY_SIZE) -> int:
    """Hold the solver's answers against exhaustion; return the number of solvable boards."""
    solvable_boards = 0
    for problem, solution in zip(problems, solve_many(problems, tree_nodes), strict=True):
        starts = tuple(agent.start for agent in problem.agents)
        optimum = truth.optimum(starts)
        assert (solution and solution.sum_of_costs) == optimum, problem
        if solution is not None:
            solvable_boards += 1
            assert solution.wait_required == truth.wait_required(starts), problem
            assert solution.waits == truth.fewest_waits[starts], problem
            check_plan(problem, solution)
    return solvable_boards


def check_plan(problem: Problem, solution: Solution) -> None:
    verdict = verify_plan(problem, solution.plan, optimum=solution.sum_of_costs)
    assert verdict.valid, problem
    assert verdict.optimal, problem
    assert legal(problem, solution.plan), problem
    assert verdict.sum_of_costs == solution.sum_of_costs == sum(len(path) - 1 for path in solution.plan)
    assert verdict.makespan == solution.makespan == max(len(path) - 1 for path in solution.plan)
    assert solution.waits == sum(moves_of(path).count("WAIT") for path in solution.plan), problem
    assert solution.wait_required == (solution.waits > 0)


def measures(solution: Solution | None) -> tuple[int, int] | None:
    """Return least cost and fewest waits; None without a plan."""
    return solution and (solution.sum_of_costs, solution.waits)


def hole_patterns(size: int, holes: int) -> list[tuple[Cell, ...]]:
    """One placement of so many holes for each class of placements that are equal by symmetry."""

    def canonical(pattern: tuple[Cell, ...]) -> list[Cell]:
        return min(sorted(image(size, cell, symmetry) for cell in pattern) for symmetry in SYMMETRIES)

    return list(
        {tuple(canonical(pattern)): pattern for pattern in combinations(all_cells(size), holes)}.values()
    )


@pytest.mark.parametrize("holes", range(8))
def test_every_3x3_board_with_two_agents_gets_the_true_optimum_and_wait_label(holes: int):
    boards = solvable_boards = 0
    for pattern in hole_patterns(3, holes):
        free = [cell for cell in all_cells(3) if cell not in pattern]
        # The other order of the goals is the same board with its agents renamed.
        for goals in combinations(free, 2):
            problems = [make_problem(3, pattern, starts, goals) for starts in permutations(free, 2)]
            solvable_boards += compare(problems, Exhausted(3, pattern, goals))
            boards += len(problems)
    free_cells = 9 - holes
    assert boards == len(hole_patterns(3, holes)) * (free_cells * (free_cells - 1)) ** 2 // 2
    assert solvable_boards > 0


@pytest.mark.parametrize(("size", "holes", "agents", "boards", "starts"), RANDOM_CLASSES)
def test_random_boards_get_the_true_optimum_and_wait_label_from_both_searches(
    size: int, holes: int, agents: int, boards: int, starts: int
):
    rng = random.Random(f"{size} {holes} {agents}")
    solvable_boards = 0
    for _ in range(boards):
        first = random_problem(rng, size, holes, agents)
        truth, goals = exhaust(first), tuple(agent.goal for agent in first.agents)
        drawn = [tuple(rng.sample(truth.free, agents)) for _ in range(starts)]
        problems = [make_problem(size, first.holes, cells, goals) for cells in drawn]
        solvable_boards += compare(problems, truth)
        for alone in (TREE_ONLY, JOINT_ONLY):
            compare(problems[::6], truth, alone)
    assert solvable_boards > 0


@pytest.mark.parametrize(
    ("size", "holes", "agents", "boards"),
    [(5, 5, 3, 80), (5, 8, 4, 20), (6, 7, 3, 60), (6, 12, 3, 60), (6, 7, 4, 20), (7, 10, 4, 10)],
)
def test_the_two_searches_agree_on_boards_too_large_to_exhaust(
    size: int, holes: int, agents: int, boards: int
):
    rng = random.Random(f"agree {size} {holes} {agents}")
    problems = [random_problem(rng, size, holes, agents) for _ in range(boards)]
    solvable = 0
    for problem, *solutions in zip(
        problems,
        *(solve_many(problems, tree_nodes) for tree_nodes in (BY_SIZE, TREE_ONLY, JOINT_ONLY)),
        strict=True,
    ):
        assert len({*map(measures, solutions)}) == 1, problem
        for solution in solutions:
            if solution:
                check_plan(problem, solution)
                solvable += 1
    assert solvable > boards


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1500)
def test_the_two_searches_agree_on_ten_thousand_boards(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(solver, "LARGEST_TABLE", 1 << 16)  # what this leaves undecided is not compared
    rng = random.Random("two searches")
    compared = large = left = 0
    while compared < 10_000:
        size, agents = rng.randint(3, 10), rng.randint(2, 5)
        problems = [
            random_problem(rng, size, rng.randint(0, int(0.35 * size * size)), agents) for _ in range(20)
        ]
        for problem, expected in zip(problems, solve_many(problems), strict=True):
            try:
                [solution] = solve_many([problem], JOINT_ONLY)
            except DataError:
                left += 1
                continue
            assert measures(solution) == measures(expected), problem
            compared += 1
            large += size == 10 and agents == 5
    assert large > 100
    assert left < 300


@pytest.mark.parametrize("tree_nodes", [1, 30, 100, 200])
def test_how_long_the_cost_tree_may_go_on_changes_no_answer(tree_nodes: int):
    rng = random.Random("limits")
    problems = [
        random_problem(rng, size, holes, agents)
        for size, holes, agents in [(3, 2, 4), (3, 3, 5), (4, 5, 4), (4, 6, 5)]
        for _ in range(60)
    ]
    assert [*map(measures, solve_many(problems, tree_nodes))] == [*map(measures, solve_many(problems))]


def test_two_lakes_on_one_board_cost_what_each_costs_alone():
    """Five agents on 8x8 with a row of holes between a narrow strip and a wide field, each small enough to
    exhaust."""
    rng = random.Random("two lakes")
    wall = [(2, column) for column in range(8)]
    strip = [(r, c) for r in range(2) for c in range(8)]
    field = [(r, c) for r in range(3, 8) for c in range(8)]
    compared = congested = waiting = 0
    while compared < 14:
        strip_holes, field_holes = rng.sample(strip, 6), rng.sample(field, 12)
        holes = (*wall, *strip_holes, *field_holes)
        upper, lower = [c for c in strip if c not in strip_holes], [c for c in field if c not in field_holes]
        starts = rng.sample(upper, 3) + rng.sample(lower, 2)
        goals = tuple(rng.sample(upper, 3) + rng.sample(lower, 2))
        above, below = Exhausted(8, (*holes, *lower), goals[:3]), Exhausted(8, (*holes, *upper), goals[3:])
        costs = above.optimum(tuple(starts[:3])), below.optimum(tuple(starts[3:]))
        if None in costs:
            continue
        problem = make_problem(8, holes, tuple(starts), goals)
        solution = solve(problem)
        assert solution is not None, problem
        check_plan(problem, solution)
        assert solution.sum_of_costs == sum(costs), problem
        assert solution.wait_required == (
            above.wait_required(tuple(starts[:3])) or below.wait_required(tuple(starts[3:]))
        ), problem
        congested += solution.sum_of_costs > 6 + sum(
            steps_from(problem, agent.goal)[agent.start] for agent in problem.agents
        )
        waiting += solution.wait_required
        compared += 1
    assert congested > 3
    assert waiting > 3


@pytest.mark.parametrize(("size", "agents"), [(8, 4), (10, 5)])
def test_plans_of_large_boards_are_valid_and_bounded_by_the_distances(size: int, agents: int):
    rng = random.Random(f"large {size} {agents}")
    solved = 0
    for _ in range(40):
        problem = random_problem(rng, size, size * size // 6, agents)
        distances = [steps_from(problem, agent.goal).get(agent.start) for agent in problem.agents]
        solution = solve(problem)
        if None in distances:
            assert solution is None
        elif solution is not None:
            solved += 1
            check_plan(problem, solution)
            assert solution.sum_of_costs >= sum(distances)
            if solution.sum_of_costs == sum(distances):
                assert not solution.wait_required
            if (solution.sum_of_costs - sum(distances)) % 2:
                assert solution.wait_required
    assert solved > 20


@repeatable
@given(problems(max_agents=1))
def test_a_single_agent_takes_a_shortest_path_and_never_needs_a_wait(problem: Problem):
    solution = solve(problem)
    distance = steps_from(problem, problem.agents[0].goal).get(problem.agents[0].start)
    expected = None if distance is None else (distance, distance, False)
    assert (solution and (solution.sum_of_costs, solution.makespan, solution.wait_required)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("parallel", (4, False)),
        ("bay", (8, False)),
        ("crossing", (5, True)),
        ("corridor-22", (22, False)),
        ("corridors-120", (120, True)),
        ("ring-order", None),
        ("swap-corridor", None),
    ],
)
def test_named_boards_have_their_known_optimum(name: str, expected: tuple[int, bool] | None):
    problem = board(name)
    solution = solve(problem)
    assert (solution and (solution.sum_of_costs, solution.wait_required)) == expected
    if solution:
        check_plan(problem, solution)
    if problem.size <= 4:
        compare([problem], exhaust(problem))
