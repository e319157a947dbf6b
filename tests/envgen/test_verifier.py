"""Verdicts of deliberately broken optimal plans: each has to be caught under its own category, agent and step."""

import random
from collections.abc import Callable, Iterator

import pytest
from board_makers import all_cells, make_problem, random_problem, solved_instances
from brute_force import legal

from envgen.boards import board
from envgen.problem import Cell, Instance, Path, Plan, Problem
from envgen.prompts import answer
from envgen.solver import solve
from envgen.verifier import FailureCategory, Verdict, verify, verify_plan

Mutant = tuple[Instance, Plan, int, int]
"""An instance, a broken plan, and the agent and step at which it breaks first."""


@pytest.fixture(scope="module")
def instances() -> list[Instance]:
    classes = [(3, 1, 2), (3, 2, 3), (4, 3, 2), (4, 4, 3), (5, 5, 2), (6, 8, 4), (8, 12, 4), (10, 20, 2)]
    return [instance for seed, (size, holes, agents) in enumerate(classes) for instance in solved_instances(seed, 60, size, holes, agents)]


def check_all(mutants: Iterator[Mutant], category: FailureCategory, at_least: int) -> None:
    """Every mutant, written as an answer, is refused for the right reason."""
    count = 0
    for instance, plan, agent, step in mutants:
        verdict = verify(instance, "I think:\n\n" + answer(plan))
        assert (verdict.category, verdict.agent, verdict.step) == (category, agent, step), (instance.problem, plan, verdict)
        assert not verdict.valid
        assert not verdict.optimal
        assert verdict.cell == plan[agent][min(step, len(plan[agent]) - 1)]
        assert f"agent {agent}" in verdict.detail or f"and {agent}" in verdict.detail
        assert verdict.sum_of_costs is None
        assert not legal(instance.problem, plan)
        count += 1
    assert count >= at_least


def replaced(plan: Plan, agent: int, path: Path) -> Plan:
    return (*plan[:agent], path, *plan[agent + 1 :])


def at(path: Path, step: int) -> Cell:
    return path[min(step, len(path) - 1)]


def steps_between(one: Cell, other: Cell) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def test_optimal_plans_are_valid_and_optimal(instances: list[Instance]):
    for instance in instances:
        solution = instance.solution
        expected = Verdict(valid=True, optimal=True, sum_of_costs=solution.sum_of_costs, makespan=solution.makespan)
        assert verify(instance, answer(solution.plan)) == expected
        assert legal(instance.problem, solution.plan)


@pytest.mark.parametrize(
    "garble",
    [
        lambda text: "",
        lambda text: text.replace("Agent", "Agnt"),
        lambda text: text.replace("(", "[").replace(")", "]"),
        lambda text: text.replace(",", ";", 1),
        lambda text: text.replace(",", ",-", 1),
        lambda text: text.replace(")", "", 1),
        lambda text: text.replace(":", "", 1),
        lambda text: text.replace("0", "٠"),
        lambda text: text.split("\n", 1)[1],
        lambda text: text.rsplit("\n", 1)[0],
        lambda text: text.replace("\n", "\nand\n", 1),
        lambda text: text + "\nAgent 9: (0,0)",
        lambda text: text.replace("\n", " "),
        lambda text: text.replace("Agent 0", "Agent 1"),
    ],
)
def test_garbled_answers_are_parse_errors(instances: list[Instance], garble: Callable[[str], str]):
    for instance in instances:
        verdict = verify(instance, garble(answer(instance.solution.plan)))
        assert verdict.category is FailureCategory.PARSE_ERROR
        assert (verdict.valid, verdict.optimal, verdict.agent, verdict.step, verdict.cell) == (False, False, None, None, None)
        assert verdict.detail


def test_a_wrong_start_is_an_illegal_move_at_step_0(instances: list[Instance]):
    def mutants() -> Iterator[Mutant]:
        rng = random.Random(0)
        for instance in instances:
            for agent, path in enumerate(instance.solution.plan):
                elsewhere = rng.choice([cell for cell in all_cells(instance.problem.size) if cell != path[0]])
                yield instance, replaced(instance.solution.plan, agent, (elsewhere, *path[1:])), agent, 0
                yield instance, replaced(instance.solution.plan, agent, (elsewhere, *path)), agent, 0

    check_all(mutants(), FailureCategory.ILLEGAL_MOVE, 2_000)


def test_a_jump_is_an_illegal_move_at_its_step(instances: list[Instance]):
    def mutants() -> Iterator[Mutant]:
        rng = random.Random(1)
        for instance in instances:
            for agent, path in enumerate(instance.solution.plan):
                step = rng.randint(1, len(path))
                far = rng.choice([cell for cell in all_cells(instance.problem.size) if steps_between(cell, path[step - 1]) > 1])
                yield instance, replaced(instance.solution.plan, agent, (*path[:step], far, *path[step + 1 :])), agent, step

    check_all(mutants(), FailureCategory.ILLEGAL_MOVE, 1_000)


def test_a_step_off_the_grid_is_an_illegal_move_at_its_step(instances: list[Instance]):
    def mutants() -> Iterator[Mutant]:
        for instance in instances:
            size = instance.problem.size
            for agent, path in enumerate(instance.solution.plan):
                for step, (row, column) in enumerate(path, start=1):
                    for outside in ((row + 1, column), (row, column + 1)):
                        if max(outside) == size:
                            yield instance, replaced(instance.solution.plan, agent, (*path[:step], outside, *path[step:])), agent, step

    check_all(mutants(), FailureCategory.ILLEGAL_MOVE, 1_000)


def test_a_step_off_the_top_or_left_edge_is_illegal_in_a_plan_that_was_not_parsed(instances: list[Instance]):
    count = 0
    for instance in instances:
        for agent, path in enumerate(instance.solution.plan):
            for step, (row, column) in enumerate(path, start=1):
                for outside in ((row - 1, column), (row, column - 1)):
                    if min(outside) == -1:
                        verdict = verify_plan(instance.problem, replaced(instance.solution.plan, agent, (*path[:step], outside, *path[step - 1 :])))
                        assert (verdict.category, verdict.agent, verdict.step) == (FailureCategory.ILLEGAL_MOVE, agent, step)
                        count += 1
    assert count > 500


def test_a_step_into_a_hole_is_a_hole_collision_at_its_step(instances: list[Instance]):
    def mutants() -> Iterator[Mutant]:
        for instance in instances:
            for agent, path in enumerate(instance.solution.plan):
                for step, cell in enumerate(path, start=1):
                    for hole in instance.problem.holes:
                        if steps_between(cell, hole) == 1:
                            yield instance, replaced(instance.solution.plan, agent, (*path[:step], hole, *path[step:])), agent, step

    check_all(mutants(), FailureCategory.HOLE_COLLISION, 1_000)


def test_two_agents_in_one_cell_are_a_conflict_at_their_step(instances: list[Instance]):
    conflicts = 0
    for instance in instances:
        plan = instance.solution.plan
        for mover, path in enumerate(plan):
            for other in range(len(plan)):
                for step in range(1, instance.solution.makespan + 1):
                    target, here = at(plan[other], step), at(path, step - 1)
                    if mover == other or steps_between(here, target) > 1:
                        continue
                    walk = tuple(at(path, s) for s in range(step))
                    moved = replaced(plan, mover, (*walk, target))
                    if swaps(moved, step):
                        continue
                    verdict = verify(instance, answer(moved))
                    assert (verdict.category, verdict.step, verdict.cell) == (FailureCategory.CONFLICT, step, target)
                    assert verdict.agent in (mover, other)
                    assert f"agents {min(mover, other)} and {max(mover, other)} are both in" in verdict.detail
                    assert not legal(instance.problem, moved)
                    conflicts += 1
    assert conflicts > 500


def test_agents_that_swap_cells_are_a_conflict_at_their_step(instances: list[Instance]):
    conflicts = 0
    for instance in instances:
        plan = instance.solution.plan
        for one in range(len(plan)):
            for other in range(one):
                for step in range(1, instance.solution.makespan + 2):
                    here, there = at(plan[one], step - 1), at(plan[other], step - 1)
                    bystanders = [at(path, step) for index, path in enumerate(plan) if index not in (one, other)]
                    if steps_between(here, there) != 1 or here in bystanders or there in bystanders:
                        continue
                    moved = replaced(plan, one, (*(at(plan[one], s) for s in range(step)), there))
                    moved = replaced(moved, other, (*(at(plan[other], s) for s in range(step)), here))
                    verdict = verify(instance, answer(moved))
                    assert (verdict.category, verdict.step) == (FailureCategory.CONFLICT, step)
                    assert verdict.agent in (one, other)
                    assert verdict.cell in (here, there)
                    assert f"agents {other} and {one} swap" in verdict.detail
                    assert not legal(instance.problem, moved)
                    conflicts += 1
    assert conflicts > 500


def swaps(plan: Plan, step: int) -> bool:
    before, now = [at(path, step - 1) for path in plan], [at(path, step) for path in plan]
    return any(before[i] == now[j] and before[j] == now[i] for i in range(len(plan)) for j in range(i))


def test_a_path_cut_short_misses_its_goal_or_blocks_the_others(instances: list[Instance]):
    missed = blocked = 0
    for instance in instances:
        plan = instance.solution.plan
        for agent, path in enumerate(plan):
            for length in range(1, len(path)):
                rest = path[length - 1]
                if rest == path[-1]:
                    continue
                cut = replaced(plan, agent, path[:length])
                visits = [s for s in range(length, instance.solution.makespan + 1) if any(at(p, s) == rest for i, p in enumerate(plan) if i != agent)]
                verdict = verify(instance, answer(cut))
                assert not legal(instance.problem, cut)
                if visits:
                    assert (verdict.category, verdict.step, verdict.cell) == (FailureCategory.CONFLICT, visits[0], rest)
                    blocked += 1
                else:
                    assert (verdict.category, verdict.agent, verdict.step, verdict.cell) == (FailureCategory.GOAL_NOT_REACHED, agent, length - 1, rest)
                    assert f"agent {agent} ends at" in verdict.detail
                    missed += 1
    assert missed > 1_000
    assert blocked > 50


def test_the_earliest_violation_counts(instances: list[Instance]):
    for instance in instances:
        plan = instance.solution.plan
        jump_late = replaced(plan, 0, (*plan[0], (999, 999)))
        verdict = verify(instance, answer(replaced(jump_late, 1, ((998, 998), *plan[1][1:]))))
        assert (verdict.category, verdict.agent, verdict.step) == (FailureCategory.ILLEGAL_MOVE, 1, 0)


def test_in_one_step_illegal_moves_come_before_holes_and_holes_before_conflicts():
    problem = make_problem(3, ((0, 1),), ((0, 0), (1, 0), (2, 2)), ((2, 0), (1, 2), (0, 2)))
    into_hole, into_cell, jump = ((0, 0), (0, 1)), ((1, 0), (2, 0)), ((2, 2), (0, 0))
    categories = [
        verify_plan(problem, (into_hole, into_cell, jump)).category,
        verify_plan(problem, (into_hole, ((1, 0), (0, 0)), ((2, 2),))).category,
        verify_plan(problem, (((0, 0), (1, 0)), ((1, 0), (0, 0)), ((2, 2),))).category,
        verify_plan(problem, (((0, 0),), ((1, 0),), ((2, 2),))).category,
    ]
    assert categories == [FailureCategory.ILLEGAL_MOVE, FailureCategory.HOLE_COLLISION, FailureCategory.CONFLICT, FailureCategory.GOAL_NOT_REACHED]


def test_waits_after_the_last_arrival_are_free(instances: list[Instance]):
    rng = random.Random(2)
    for instance in instances:
        padded = tuple((*path, *[path[-1]] * rng.randint(0, 40)) for path in instance.solution.plan)
        verdict = verify(instance, answer(padded))
        assert verdict == verify(instance, answer(instance.solution.plan))


def test_waiting_at_the_start_is_valid_and_costs_every_agent_that_moves_one_step(instances: list[Instance]):
    for instance in instances:
        plan = instance.solution.plan
        late = tuple((path[0], *path) for path in plan)
        moving = sum(len(path) > 1 for path in plan)
        verdict = verify(instance, answer(late))
        assert (verdict.valid, verdict.optimal, verdict.category) == (True, moving == 0, None)
        assert verdict.sum_of_costs == instance.solution.sum_of_costs + moving
        assert verdict.makespan == instance.solution.makespan + (moving > 0)


def test_an_agent_that_leaves_its_goal_and_comes_back_pays_until_its_last_arrival(instances: list[Instance]):
    detours = 0
    for instance in instances:
        plan, makespan = instance.solution.plan, instance.solution.makespan
        ends = {path[-1] for path in plan}
        for agent, path in enumerate(plan):
            for aside in all_cells(instance.problem.size):
                if steps_between(aside, path[-1]) != 1 or aside in instance.problem.holes or aside in ends:
                    continue
                detour = replaced(plan, agent, (*(at(path, s) for s in range(makespan + 1)), aside, path[-1]))
                verdict = verify(instance, answer(detour))
                assert (verdict.valid, verdict.optimal) == (True, False)
                assert verdict.makespan == makespan + 2
                assert verdict.sum_of_costs == instance.solution.sum_of_costs - (len(path) - 1) + makespan + 2
                assert legal(instance.problem, detour)
                detours += 1
    assert detours > 500


@pytest.mark.parametrize(("size", "holes", "agents"), [(3, 0, 2), (3, 2, 2), (3, 1, 3), (4, 3, 2)])
def test_verdicts_on_random_walks_agree_with_stepping_them(size: int, holes: int, agents: int):
    rng = random.Random(f"walks {size} {holes} {agents}")
    valid = 0
    for _ in range(6_000):
        problem = random_problem(rng, size, holes, agents)
        plan = tuple(walk(rng, problem, index) for index in range(agents))
        verdict = verify_plan(problem, plan)
        assert verdict.valid == legal(problem, plan), (problem, plan)
        assert (verdict.category is None) == verdict.valid
        valid += verdict.valid
    assert valid > 20


def walk(rng: random.Random, problem: Problem, index: int) -> Path:
    """A short random walk that mostly keeps to the ice and mostly ends when it meets the goal."""
    agent = problem.agents[index]
    path = [agent.start]
    for _ in range(rng.randint(0, 8)):
        row, column = path[-1]
        targets = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1), (row, column)]
        inside = [cell for cell in targets if min(cell) >= 0 and max(cell) < problem.size and cell not in problem.holes]
        path.append(rng.choice(inside if inside and rng.random() > 0.03 else targets))
        if path[-1] == agent.goal and rng.random() < 0.8:
            break
    return tuple(path)


def test_valid_but_not_optimal_without_a_known_optimum_is_not_called_optimal():
    solution = solve(board("parallel"))
    assert solution is not None
    assert verify_plan(board("parallel"), solution.plan).optimal is False
    assert verify_plan(board("parallel"), solution.plan, optimum=4).optimal is True


def test_an_agent_may_cross_its_goal_and_follow_another():
    problem = make_problem(3, (), ((0, 0), (1, 0)), ((0, 1), (0, 0)))
    follow = (((0, 0), (0, 1)), ((1, 0), (0, 0)))
    assert verify_plan(problem, follow, optimum=2).optimal
    crossing = (((0, 0), (0, 1), (0, 2), (0, 1)), ((1, 0), (0, 0)))
    verdict = verify_plan(problem, crossing, optimum=2)
    assert (verdict.valid, verdict.optimal, verdict.sum_of_costs, verdict.makespan) == (True, False, 4, 3)
