"""Simulated comparisons whose truth is given, for the coverage of intervals."""

from itertools import combinations

import numpy as np
from scipy.special import ndtr, ndtri

from envgen.estimates import difference_bounds, holm


def cells_of(instances: int, strata: int) -> np.ndarray:
    """Return the stratum of each instance, strata of equal size."""
    return np.repeat(np.arange(strata), instances // strata)


def changes(
    rng: np.random.Generator, shape: tuple[int, int, int], cells: np.ndarray, run_sd: float, changed: float
) -> np.ndarray:
    """Return changes -1, 0, 1 of mean 0.01 and the given `shape` of trials, runs, instances.

    Strata differ in mean by up to 10 points; `changed` is the share of outcomes that change, a fifth of whose
    variance is between instances.
    """
    trials, runs, instances = shape
    strata = np.linspace(-0.05, 0.05, cells.max() + 1)[cells] if cells.any() else np.zeros(instances)
    of_instance = np.sqrt(changed / 5) * rng.choice([-1, 1], size=(trials, 1, instances))
    mean = 0.01 + strata + run_sd * rng.normal(size=(trials, runs, 1)) + of_instance
    either = np.maximum(changed, np.abs(mean))
    draws = rng.random(shape)
    return (draws < (either + mean) / 2).astype(float) - (draws > 1 - (either - mean) / 2)


def outcomes(
    rng: np.random.Generator, shape: tuple[int, ...], cells: np.ndarray, run_sd: float, mean: float
) -> tuple[np.ndarray, float]:
    """Return outcomes 0 and 1 of a `shape` that ends in trials, runs, instances or trials, arms, runs,
    instances, and their expectation; instances differ as much as outcomes of one of them."""
    strata = np.linspace(-0.14, 0.14, cells.max() + 1)[cells] if cells.any() else np.zeros(shape[-1])
    difficulty = rng.normal(size=(shape[0], *(1 for _ in shape[1:-1]), shape[-1]))
    chance = ndtr(np.sqrt(2) * ndtri(mean + strata) + difficulty) + run_sd * rng.normal(size=(*shape[:-1], 1))
    return (rng.random(shape) < np.clip(chance, 0, 1)).astype(float), mean


def covered(bounds: tuple[np.ndarray, ...], truth: float) -> float:
    """Return the share of intervals (value, low, high, ...) that hold the truth."""
    return float(((bounds[1] <= truth) & (truth <= bounds[2])).mean())


def false_ahead(
    rng: np.random.Generator, comparisons: int, runs: int, instances: int, run_sd: float
) -> float:
    """Return the share of comparisons of eight equal arms with a pair whose adjusted p-value is below 5 %.

    `run_sd` is of the difference of two arms."""
    cells, ahead = np.zeros(instances, int), 0
    for size in np.diff(np.linspace(0, comparisons, comparisons // 50 + 1).astype(int)):
        arms, _ = outcomes(rng, (size, 8, runs, instances), cells, run_sd / np.sqrt(2), 0.5)
        pairs = [difference_bounds(arms[:, a] - arms[:, b], cells)[3] for a, b in combinations(range(8), 2)]
        ahead += sum(min(holm(p)) < 0.05 for p in np.stack(pairs, axis=1).tolist())
    return ahead / comparisons
