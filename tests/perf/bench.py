"""`make bench`: speeds of the testbed as ratios within one run, medians of several repeats, one core."""

import statistics
import time
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from envgen.config import EnvConfig, SizeConfig
from envgen.grid import Grid
from envgen.joint_search import optimal_paths
from envgen.problem import Instance
from envgen.prompts import answer
from envgen.sampler import sample
from envgen.solver import solve
from envgen.verifier import verify

CLASSES = [(4, 2), (6, 2), (6, 3)]
BOARDS, REPEATS = 60, 3


def per_second(work: Callable[[], object], count: int) -> float:
    """Median rate of `work`, which handles `count` items a call."""
    rates = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        rates.append(count / (time.perf_counter() - started))
    return statistics.median(rates)


def joint(instance: Instance) -> None:
    """Solve by the joint search alone."""
    problem = instance.problem
    grid = Grid(problem.size, problem.holes)
    optimal_paths(grid, [grid.index(a.start) for a in problem.agents], [grid.index(a.goal) for a in problem.agents])


def main() -> None:
    """Measure and print."""
    table = Table(title="boards or plans a second, one core, holes 0.2, half of the boards need a wait")
    for name in ("size, agents", "solve", "joint A* alone", "ratio", "verify, parsing included", "sample, labelled"):
        table.add_column(name, justify="right")
    for size, agents in CLASSES:
        config = EnvConfig(sizes={size: SizeConfig(data_ratio=1, hole_ratio=0.2, wait_ratio=0.5)})
        sampling = per_second(lambda c=config, a=agents: sample(c, BOARDS, agents=a, seed=0), BOARDS)
        boards, _ = sample(config, BOARDS, agents=agents, seed=0)
        answers = [(i, answer(i.solution.plan)) for i in boards]
        solving = per_second(lambda b=boards: [solve(i.problem) for i in b], BOARDS)
        searching = per_second(lambda b=boards: [joint(i) for i in b], BOARDS)
        verifying = per_second(lambda a=answers: [verify(i, text) for i, text in a], BOARDS)
        table.add_row(f"{size}, {agents}", f"{solving:,.0f}", f"{searching:,.0f}", f"{solving / searching:.1f}", f"{verifying:,.0f}", f"{sampling:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
