"""How often a study shows a difference, by seeds and by how much seeds differ: the table in
`infra.analysis.statistics.py`.

python tests/perf/study_power.py    # about a minute on one core
"""

from itertools import product

import numpy as np

from infra.analysis.statistics import ALPHA, effect

INSTANCES, ROUNDS = 840, 1_500
SEEDS, SEED_SPREADS = (3, 5, 6, 10), (0.0, 0.01, 0.02)
INSTANCE_SPREAD, NOISE = 0.10, 0.30
"""Standard deviations of a difference between instances, and of what is neither seed nor instance: about one
answer of eleven differs."""


def simulated(rng: np.random.Generator, seeds: int, seed_spread: float, true: float) -> tuple[float, float]:
    """The share of rounds that show a difference, and the median of their smallest visible one."""
    found = []
    for _ in range(ROUNDS):
        of_seeds = seed_spread * rng.standard_normal((seeds, 1))
        of_instances = INSTANCE_SPREAD * rng.standard_normal(INSTANCES)
        found.append(effect(true + of_seeds + of_instances + NOISE * rng.standard_normal((seeds, INSTANCES))))
    return float(np.mean([one.p < ALPHA for one in found])), float(
        np.median([one.detectable for one in found])
    )


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    print(f"{'seeds':>5}  {'spread':>6}  none shown as one  found  smallest visible")
    for seeds, spread in product(SEEDS, SEED_SPREADS):
        wrong, visible = simulated(rng, seeds, spread, 0.0)
        right, _ = simulated(rng, seeds, spread, visible)
        print(
            f"{seeds:>5}  {100 * spread:>6.0f}  {100 * wrong:>15.1f} %  {100 * right:>3.0f} % "
            f" {100 * visible:>14.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
