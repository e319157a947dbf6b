"""How fast answers are judged, for `tests.perf.bench`."""

import statistics
import time
from collections.abc import Callable

import numpy as np

from envgen.mapf.judging import Plans, boards_of, judge, read_cells
from envgen.mapf.parser import plan_lines
from envgen.mapf.problem import Instance
from envgen.mapf.verifier import verify_batch

REPEATS, COPIES = 7, 50


def verdicts_per_second(instances: list[Instance], answers: list[str]) -> tuple[float, float]:
    """(answers to `Verdict` objects, arrays to arrays) a second on one core, medians of several repeats.

    `answers[i]` is a readable answer to `instances[i]`. The first goes through `verify_batch`, parsing
    included; the second through `envgen.mapf.judging.judge`, parsing excluded, on 50 copies of the batch so
    that the call itself does not count."""
    paths = [
        path
        for instance, text in zip(instances, answers, strict=True)
        for path in plan_lines(text, instance.problem.num_agents)
    ]
    stops, cells = read_cells(paths * COPIES)
    boards, rows = boards_of([instance.problem for instance in instances])
    optima = np.array([instance.solution.sum_of_costs for instance in instances])
    plans = Plans(np.tile(rows, COPIES), np.tile(optima, COPIES), stops, cells)
    return _rate(lambda: verify_batch(instances, answers), len(answers)), _rate(
        lambda: judge(boards, plans), len(plans.board)
    )


def _rate(work: Callable[[], object], count: int) -> float:
    work()  # the first call compiles
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return count / statistics.median(seconds)
