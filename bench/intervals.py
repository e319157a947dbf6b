"""Print the numbers behind docs/statistics.md: coverage of intervals, false 'ahead' among eight equal arms.

Example: `PYTHONPATH=. python bench/intervals.py`
"""

import sys
from itertools import product

import numpy as np

from envgen.estimates import difference_bounds, rate_bounds
from tests.support.worlds import cells_of, changes, covered, false_ahead, outcomes

TRIALS = 2_000
RUNS = (1, 2, 3, 5)
SETS = ((17, 1), (51, 1), (60, 1), (180, 1), (180, 9), (540, 1), (540, 9))
RUN_SD = (0.0, 0.005, 0.01, 0.02)
FAR_SD = (0.04, 0.08)
CHANGED = (0.1, 0.2, 0.35)
MEANS = (0.2, 0.35, 0.5, 0.8)
BATCH = 250


def difference_coverage(runs: int, size: tuple[int, int], run_sd: float, changed: float) -> float:
    """Coverage of differences in one world, 0 to 1."""
    rng, cells = np.random.default_rng(0), cells_of(*size)
    shape = (BATCH, runs, len(cells))
    draws = (changes(rng, shape, cells, run_sd, changed) for _ in range(TRIALS // BATCH))
    return float(np.mean([covered(difference_bounds(values, cells), 0.01) for values in draws]))


def rate_coverage(runs: int, size: tuple[int, int], run_sd: float, mean: float) -> float:
    """Coverage of rates in one world, 0 to 1."""
    rng, cells = np.random.default_rng(0), cells_of(*size)
    draws = (outcomes(rng, (BATCH, runs, len(cells)), cells, run_sd, mean) for _ in range(TRIALS // BATCH))
    return float(np.mean([covered(rate_bounds(values, cells), truth) for values, truth in draws]))


def summary(shares: list[float]) -> str:
    """Lowest, mean and highest share in percent."""
    return f"{100 * min(shares):.1f} / {100 * np.mean(shares):.1f} / {100 * max(shares):.1f}"


def main() -> None:
    """Print all tables."""
    print("| instances, strata | " + " | ".join(f"{runs} runs" for runs in RUNS) + " |")
    print("|---|" + "---|" * len(RUNS))
    for name, coverage, worlds in (
        ("difference", difference_coverage, CHANGED),
        ("rate", rate_coverage, MEANS),
    ):
        for size in SETS:
            row = []
            for runs in RUNS:
                spreads = RUN_SD if runs > 1 else (0.0,)
                row.append(summary([coverage(runs, size, *world) for world in product(spreads, worlds)]))
            print(f"| {name}, {size[0]}, {size[1]} | {' | '.join(row)} |", flush=True)
    far = [
        summary(
            [difference_coverage(runs, size, *world) for size in SETS for world in product(FAR_SD, CHANGED)]
        )
        for runs in RUNS[1:]
    ]
    print(f"| difference, all sets, runs differ by 4 or 8 points | - | {' | '.join(far)} |", flush=True)
    comparisons = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    for runs, instances in product(RUNS, (60, 180, 540)):
        spreads = RUN_SD if runs > 1 else (0.0, 0.02)
        rates = [
            false_ahead(np.random.default_rng(0), comparisons, runs, instances, run_sd) for run_sd in spreads
        ]
        print(
            "ahead", runs, "runs", instances, "instances", [f"{100 * rate:.1f}" for rate in rates], flush=True
        )


if __name__ == "__main__":
    main()
