"""`make bench`: speeds of the testbed on one core; medians of several repeats.

Where there is a peer, both run in one process or in turn, and the ratio counts. The testbed's is
w9-pathfinding (C++ core, from the package index): its conflict-based search, optimal in the sum of costs, on
the same boards. Its answers are held against ours."""

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
from envgen.errors import SamplingError
from envgen.mapf.problem import MAX_AGENTS, MIN_AGENTS, Problem
from envgen.mapf.sampler import draw_boards, draw_size
from envgen.mapf.solver.columns import pack, problem_of
from envgen.mapf.solver.solve import solve, solve_boards, solve_many

Row = Callable[[str, str, str, str, str], None]
"""Takes what was measured, the speed, what it is held against, their ratio, and the bar."""
COLUMNS = ("what", "measured", "beside", "ratio", "bar")
PEER_CLASSES = [((4, 2), 40), ((6, 3), 40), ((8, 4), 25), ((10, 5), 20)]
PEER_BOARDS, PEER_SECONDS, REPEATS = 1_000, 20.0, 5
SAMPLING_BARS = {size: 5_000 if size == 3 else 10_000 for size in range(3, 11)}
console = Console(width=140)


def median_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median wall time of a call, after one that is not counted."""
    work()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def drawn(size: int, agents: int, hole_ratio: float, draws: int, seed: int = 0) -> list[Problem]:
    """Random solvable boards of a class."""
    holes = int(hole_ratio * size * size + 1e-9)
    found = draw_boards(size, agents, holes, Source(seed, purpose="bench"), 0, draws)
    return [problem_of(found.boards, index) for index in np.flatnonzero(found.answers.status > 0).tolist()]


def peer_paths(problem: Problem) -> list | None:
    """The peer's plan, or None if it does not finish in its time."""
    weights = [[1.0] * problem.size for _ in range(problem.size)]
    for row, column in problem.holes:
        weights[row][column] = -1.0
    search = CBS(Grid(weights, edge_collision=True))
    try:
        return search.mapf(
            [a.start[::-1] for a in problem.agents],
            [a.goal[::-1] for a in problem.agents],
            max_time=PEER_SECONDS,
        )
    except RuntimeError:
        return None


def bench_solver(add: Row) -> None:
    """Optimal plan and wait label, against the peer's optimal plan."""
    for (size, agents), bar in PEER_CLASSES:
        problems = drawn(size, agents, 0.2, 2 * PEER_BOARDS)[:PEER_BOARDS]
        boards = pack(problems)
        ours = len(problems) / median_seconds(lambda b=boards: solve_boards(b))
        started = time.perf_counter()
        plans = [peer_paths(problem) for problem in problems]
        peer = len(problems) / (time.perf_counter() - started)
        solutions = solve_many(problems)
        worse = sum(
            solution is not None
            and plan is not None
            and sum(len(path) - 1 for path in plan) != solution.sum_of_costs
            for plan, solution in zip(plans, solutions, strict=True)
        )
        late = sum(plan is None for plan in plans)
        add(
            f"solve, plan and wait label, {size}x{size}, {agents} agents, holes 0.2",
            f"{ours:,.0f} boards/s",
            f"w9 CBS {peer:,.0f}/s ({late} late, {worse} of other cost)",
            f"{ours / peer:.0f}x",
            f"{bar}x",
        )


def bench_sampling(add: Row, per_class: int) -> None:
    """Wait ratio 0.75, hole ratios 0.1 to 0.4 and 2 to 5 agents pooled; too small classes left out."""
    draw_size(4, {"hole_ratio": 0.4, "wait_ratio": 0.75}, 20, 5, Source(0), frozenset())  # loads all searches
    for size, bar in SAMPLING_BARS.items():
        instances, seconds, slowest = 0, 0.0, (0.0, "")
        for hole_ratio in (0.0, 0.1, 0.2, 0.3, 0.4):
            for agents in range(MIN_AGENTS, MAX_AGENTS + 1):
                knobs = {"hole_ratio": hole_ratio, "wait_ratio": 0.75}
                started = time.perf_counter()
                try:
                    count = len(draw_size(size, knobs, per_class, agents, Source(1), frozenset())[0])
                except SamplingError:
                    continue
                took = time.perf_counter() - started
                instances, seconds = instances + count, seconds + took
                slowest = max(slowest, (took / count, f"{agents} agents, holes {hole_ratio}"))
        add(
            f"sample, {size}x{size}, wait ratio 0.75, pooled",
            f"{instances / seconds:,.0f} instances/s",
            f"slowest: {slowest[1]}, {1 / slowest[0]:,.0f}/s",
            "",
            f"{bar:,}/s",
        )


def bench_worst_board(add: Row, draws: int) -> None:
    """One board at a time at 10x10 with 5 agents and holes 0.2."""
    source = Source(2, purpose="bench")
    overhead = min(_one_by_one(draw_boards(10, 5, 20, source, 0, 256).boards))
    seconds: list[float] = []
    for first in range(0, draws, 1024):
        seconds += _one_by_one(draw_boards(10, 5, 20, source, first, min(1024, draws - first)).boards)
    taken = np.array(seconds) - overhead
    q999, worst = np.quantile(taken, 0.999) * 1e3, taken.max() * 1e3
    add(
        f"one board, 10x10, 5 agents, holes 0.2, {len(taken):,} draws",
        f"99.9 %: {q999:.2f} ms, worst {worst:.1f} ms",
        "",
        "",
        "1 ms, 20 ms",
    )


def _one_by_one(boards) -> list[float]:
    taken = []
    for index in range(len(boards.agents)):
        one = type(boards)(*(column[index : index + 1] for column in boards))
        started = time.perf_counter()
        solve_boards(one)
        taken.append(time.perf_counter() - started)
    return taken


PARTS: dict[str, Callable[[Row, argparse.Namespace], None]] = {
    "solver": lambda add, _: bench_solver(add),
    "sampling": lambda add, arguments: bench_sampling(add, arguments.per_class),
    "worst": lambda add, arguments: bench_worst_board(add, arguments.draws),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100_000, help="boards of the worst-board measurement")
    parser.add_argument(
        "--per-class", type=int, default=200, help="instances of each class of the sampling measurement"
    )
    parser.add_argument("--only", choices=list(PARTS), action="append", help="only these parts")
    arguments = parser.parse_args()
    solve(drawn(4, 2, 0.2, 1)[0])
    table = Table(*COLUMNS, title="envwright: speeds")

    def add(*cells: str) -> None:
        # A part can take many minutes: what is measured is said at once, and again in the table.
        console.print(
            "; ".join(
                f"{name} {cell}" if name in ("ratio", "bar") else cell
                for name, cell in zip(COLUMNS, cells, strict=True)
                if cell
            )
        )
        table.add_row(*cells)

    for name in arguments.only or PARTS:
        console.print(f"[bold]{name}[/bold] ...")
        PARTS[name](add, arguments)
    console.print(table)


if __name__ == "__main__":
    main()
