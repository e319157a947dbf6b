"""`make bench`: speeds of the testbed on one core, a line each; medians of several repeats.

Where there is a peer, both run in one process or in turn, and the ratio counts. The testbed's is
w9-pathfinding (C++ core, from the package index): its conflict-based search, optimal in the sum of costs, on
the same boards. Its answers are held against ours."""

import statistics
import time
from collections.abc import Callable

import numpy as np
from w9_pathfinding.envs import Grid
from w9_pathfinding.mapf import CBS

from envgen.config import EnvConfig
from envgen.environment import Environment, Source
from envgen.mapf.environment import MapfFrozenLake
from envgen.mapf.problem import Problem
from envgen.mapf.sampler import draw_boards
from envgen.mapf.solver.columns import pack, problem_of
from envgen.mapf.solver.solve import solve_boards, solve_many
from envgen.mapf.space import Options
from envgen.sampling import sample
from infra.config.preset import load_preset

PEER_CLASSES = [((4, 2), 10), ((6, 3), 10), ((8, 4), 10), ((10, 5), 100)]
PEER_BOARDS, PEER_SECONDS, REPEATS = 1_000, 20.0, 5


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
    drawn = draw_boards(size, agents, holes, Source(seed, purpose="bench"), 0, draws)
    return [problem_of(drawn.boards, index) for index in np.flatnonzero(drawn.answers.status > 0).tolist()]


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


def bench_solver() -> None:
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
        what = f"solve, plan and wait label, {size}x{size}, {agents} agents, holes 0.2"
        against = f"w9 CBS {peer:,.0f}/s ({late} late, {worse} of other cost)"
        print(f"{what}: {ours:,.0f} boards/s; {against}: {ours / peer:.0f}x; bar {bar}x", flush=True)


def bench_stage(what: str, environment: Environment, config: EnvConfig, count: int, bar: int) -> None:
    """Draw the training data of a stage."""
    seconds = median_seconds(lambda: sample(environment, config, count, Source(1)))
    print(f"draw {count:,} instances, {what}: {seconds:.1f} s; bar {bar} s", flush=True)


def main() -> None:
    """Measure and print."""
    tiny, boards = load_preset("tiny"), MapfFrozenLake(Options(agents=2))
    part = {"data_ratio": 1 / len(boards.space.names), "hole_ratio": 0.2, "wait_ratio": 0.05}
    sizes = EnvConfig.model_validate({"sizes": dict.fromkeys(boards.space.names, part)})
    bench_stage("preset tiny", tiny.task, tiny.default_config, tiny.instances, 3)
    bench_stage("2 agents, 3x3 to 10x10", boards, sizes, 4_000, 20)
    bench_solver()


if __name__ == "__main__":
    main()
