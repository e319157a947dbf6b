"""Optimal plans and the exact wait label for any board: every board is decided, none is given up."""

from itertools import count
from math import prod

from envgen.cost_tree import CostTree
from envgen.grid import Grid
from envgen.joint_search import optimal_paths, solvable
from envgen.problem import Problem, Solution

# Where the two searches hand over to each other decides speed only, never an answer.
SMALL_JOINT_SPACE = 5_000
LARGE_JOINT_SPACE = 200_000
COST_TREE_EXCESS = 6


def solve(problem: Problem) -> Solution | None:
    """The plan with the least sum of costs, or None if the problem has no plan at all.

    The plan is the same on every machine. Time grows with the number of agents that get in each other's way; memory
    with the joint states visited.
    """
    grid = Grid(problem.size, problem.holes)
    starts = [grid.index(agent.start) for agent in problem.agents]
    goals = [grid.index(agent.goal) for agent in problem.agents]
    return solve_on_grid(grid, starts, goals)


def solve_on_grid(grid: Grid, starts: list[int], goals: list[int]) -> Solution | None:
    """`solve` for bit indices on a grid; starts and goals lie on free cells."""
    reachable = [grid.distances(goal) for goal in goals]
    if any(start not in cells for start, cells in zip(starts, reachable, strict=True)):
        return None
    tree = CostTree(grid, starts, goals)
    joint_space = prod(map(len, reachable))
    paths, excess = _cheapest(tree, joint_space)
    if paths is None:
        return None
    return Solution(
        sum_of_costs=sum(len(path) - 1 for path in paths),
        makespan=max(len(path) - 1 for path in paths),
        wait_required=_wait_required(tree, excess, joint_space),
        plan=tuple(tuple(grid.cell(index) for index in path) for path in paths),
    )


def _cheapest(tree: CostTree, joint_space: int) -> tuple[list[list[int]] | None, int]:
    """Paths with the least sum of costs and their excess over the sum of distances; (None, 0) if unsolvable."""
    first = 1 if joint_space <= SMALL_JOINT_SPACE else COST_TREE_EXCESS + 1
    for excess in range(first):
        paths = tree.search(excess)
        if paths is not None:
            return paths, excess
    if not solvable(tree.grid, tree.starts, tree.goals):
        return None, 0
    if joint_space > LARGE_JOINT_SPACE:
        return next((paths, excess) for excess in count(first) if (paths := tree.search(excess)) is not None)
    paths = optimal_paths(tree.grid, tree.starts, tree.goals)
    assert paths is not None, "a solvable board has an optimal plan"
    return paths, sum(len(path) - 1 for path in paths) - sum(tree.distance)


def _wait_required(tree: CostTree, excess: int, joint_space: int) -> bool:
    """Whether every plan of this excess waits somewhere before a last arrival.

    The grid is bipartite, so a path without waits has the parity of the distance: excess 0 never needs a wait, an odd
    excess always does. An even one is searched again with waiting forbidden.
    """
    if excess == 0:
        return False
    if excess % 2:
        return True
    if excess <= COST_TREE_EXCESS or joint_space > LARGE_JOINT_SPACE:
        return CostTree(tree.grid, tree.starts, tree.goals, waits=False).search(excess) is None
    return optimal_paths(tree.grid, tree.starts, tree.goals, waits=False, cost_limit=sum(tree.distance) + excess) is None
