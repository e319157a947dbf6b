"""Boards a second: the solver against w9-pathfinding in one process, and the sampler.

w9-pathfinding (C++ core, from the package index) runs its conflict-based search, optimal in the sum of costs,
on the same boards; its costs are compared. Times are of the CPU, so that other work on the machine hardly
moves the ratios:
`python bench/solver.py [--boards 1000]`.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from w9_pathfinding.envs import Grid
from w9_pathfinding.mapf import CBS

from envgen.environment import Source
from envgen.mapf.problem import Problem
from envgen.mapf.sampler import draw_boards, draw_size
from envgen.mapf.solver.boards import pack, problem_of
from envgen.mapf.solver.solve import compile_solver, solve_boards, solve_many

CLASSES = [(4, 2, 10), (6, 3, 10), (8, 4, 10), (10, 5, 100)]
"""Map size, agents, and the ratio to reach."""
HOLES, PEER_SECONDS, REPEATS = 0.2, 20.0, 5


def median_seconds(work: Callable[[], object]) -> float:
    """Return the median CPU time of REPEATS calls."""
    seconds = []
    for _ in range(REPEATS):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return statistics.median(seconds)


def solvable_boards(size: int, agents: int, count: int) -> list[Problem]:
    """Draw random solvable boards."""
    holes = int(HOLES * size * size + 1e-9)
    drawn = draw_boards(size, agents, holes, Source(0, purpose="bench"), 0, 2 * count)
    solved = np.flatnonzero(drawn.answers.status > 0).tolist()
    return [problem_of(drawn.boards, index) for index in solved[:count]]


def peer_cost(problem: Problem) -> int | None:
    """Return the sum of costs of the peer's plan, None if it does not finish in PEER_SECONDS."""
    weights = [[1.0] * problem.size for _ in range(problem.size)]
    for row, column in problem.holes:
        weights[row][column] = -1.0
    starts = [agent.start[::-1] for agent in problem.agents]
    goals = [agent.goal[::-1] for agent in problem.agents]
    try:
        plan = CBS(Grid(weights, edge_collision=True)).mapf(starts, goals, max_time=PEER_SECONDS)
    except RuntimeError:
        return None
    return sum(len(path) - 1 for path in plan)


def compare(table: Table, count: int) -> None:
    """Add a row for each class: optimal plan and wait label against the peer's optimal plan."""
    for size, agents, bar in CLASSES:
        problems = solvable_boards(size, agents, count)
        boards = pack(problems)
        speed = len(problems) / median_seconds(lambda boards=boards: solve_boards(boards))
        started = time.process_time()
        costs = [peer_cost(problem) for problem in problems]
        peer = len(problems) / (time.process_time() - started)
        optima = [solution and solution.sum_of_costs for solution in solve_many(problems)]
        other = sum(cost not in (None, optimum) for cost, optimum in zip(costs, optima, strict=True))
        table.add_row(
            f"{size}x{size}, {agents} agents",
            f"{speed:,.0f}",
            f"{peer:,.0f} ({costs.count(None)} late, {other} of other cost)",
            f"{speed / peer:.0f}x",
            f"{bar}x",
        )


def draw_stage(table: Table) -> None:
    """Add a row for 4,000 instances of two agents, drawn over all map sizes."""
    knobs = {"hole_ratio": HOLES, "wait_ratio": 0.5}
    easy = {"hole_ratio": 0.3, "wait_ratio": 0.25}  # a 3x3 map holds few boards that need a wait
    started = time.process_time()
    for size in range(3, 11):
        draw_size(size, easy if size == 3 else knobs, 500, 2, Source(0), frozenset())
    table.add_row("4,000 instances, 2 agents", f"{time.process_time() - started:.1f} s", "", "", "20 s")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boards", type=int, default=1000, help="boards of a class")
    count = parser.parse_args().boards
    compile_solver()
    table = Table("boards, holes 0.2", "envwright, boards/s", "w9-pathfinding, boards/s", "ratio", "bar")
    compare(table, count)
    draw_stage(table)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
