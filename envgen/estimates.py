"""Estimates of rates and of paired differences, with 95 % intervals; `docs/statistics.md` has their coverage.

Outcomes have the shape (training runs, instances). Instances are samples within strata of fixed size, and
training runs are samples too (Clark 1973, Journal of Verbal Learning and Verbal Behavior 12:335). For an
outcome y_si = m + a_s + b_i + e_si the variance of the mean over S runs and n instances is Var(a) / S +
Var(b + mean over s of e) / n. With one run the interval covers other instances, not other runs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from scipy.special import chdtri, ndtr, stdtrit  # scipy.stats takes two seconds to import

from envgen.frozen import Frozen

ALPHA = 0.05
"""Two-sided level of tests; intervals have the level 1 - ALPHA."""
FLOOR = 0.5
"""An interval over several runs has at least the width that instances and residual alone give, at this share
of their variance. Two runs may agree by chance: without a floor Holm's method puts an arm ahead of equal ones
in 28 to 43 % of comparisons; with all of the variance, intervals of two runs cover 99 %."""


class Rate(Frozen):
    """A rate, 0 to 1, with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}]"


class Difference(Frozen):
    """A paired difference of rates, -1 to 1, with its 95 % interval."""

    value: float
    low: float
    high: float
    p: float = Field(ge=0, le=1)
    """Two-sided p-value of no difference; below ALPHA if and only if the interval excludes zero."""

    def __str__(self) -> str:
        value, low, high = (100 * number for number in (self.value, self.low, self.high))
        return f"{value:+.1f} points [{low:+.1f}, {high:+.1f}]"

    @property
    def sign(self) -> int:
        """1 for a significant rise, -1 for a significant fall, else 0."""
        return 0 if self.p >= ALPHA else 1 if self.value > 0 else -1


def rate(outcomes: ArrayLike, strata: ArrayLike | None = None) -> Rate:
    """Return the mean of outcomes from 0 to 1, of shape (runs, instances) or (instances,).

    `strata`: labels of shape (instances,) of cells whose sizes were fixed by design; None for one cell.
    No instances span 0 to 1. ValueError for other shapes.
    """
    value, low, high = map(float, rate_bounds(*_checked(outcomes, strata)))
    return Rate(value=value, low=low, high=high)


def difference(change: ArrayLike, strata: ArrayLike | None = None) -> Difference:
    """Return the mean of paired changes from -1 to 1, of shape (runs, instances) or (instances,). `strata`:
    see `rate`. No instances span -1 to 1. ValueError for other shapes."""
    value, low, high, p = map(float, difference_bounds(*_checked(change, strata)))
    return Difference(value=value, low=low, high=high, p=p)


def wilson(successes: ArrayLike, total: ArrayLike, spread: ArrayLike = 0.0) -> Rate:
    """Return the rate of successes among instances from counts, or from an array of counts per stratum.

    A mean of shares takes their sum for successes: shares vary no more than outcomes of 0 and 1 with the same
    mean, so that the interval is then too wide rather than too narrow. With `spread`, sums of p (1 - p) over
    shares p, it is the interval of `rate`.
    """
    totals = np.atleast_1d(np.asarray(total, float))
    groups = _groups(totals)
    sums, sizes, spreads = (
        np.bincount(groups, np.broadcast_to(np.asarray(part, float), totals.shape))
        for part in (successes, totals, spread)
    )
    n = sizes.sum()
    if not n:
        return Rate(value=0.0, low=0.0, high=1.0)
    mean, shares = sums.sum() / n, sums / np.maximum(sizes, 1)
    single = n * mean * (1 - mean) - spreads.sum()
    within = (_unbiased(sizes) * (sizes * shares * (1 - shares) - spreads)).sum()
    low, high = _wilson(mean, n * (single + 1) / (within + 1), stdtrit(np.inf, 1 - ALPHA / 2))
    return Rate(value=float(mean), low=float(low), high=float(high))


def rate_bounds(values: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return value, low and high of rates; values [..., runs, instances], cells [instances] from 0.

    Wilson's interval at an effective number of instances (Korn and Graubard 1998, Survey Methodology 24:193):
    their number, times the variance of one run in one cell, over the variance of the estimate. One more in
    both variances keeps the number finite.
    """
    runs, n = values.shape[-2:]
    if not n:
        return np.zeros(()), np.zeros(()), np.ones(())
    mean = values.mean(axis=(-2, -1))
    single = _within(values, np.zeros(n, int)).mean(axis=-1)
    among, shared, whole = _parts(values, cells)
    variance = (_reach(runs, ALPHA, among, shared / n**2, whole / n**2) / _quantile(1, ALPHA)) ** 2
    effective = n * (single + 1) / (n * n * variance + 1)
    low, high = _wilson(mean, effective, _quantile(1, ALPHA))
    return mean, low, high


def difference_bounds(values: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return value, low, high and p-value of differences; shapes as of `rate_bounds`.

    With one run in one cell the interval is the one of Agresti and Min (2005, Statistics in Medicine 24:729),
    which adds half a pair to each of the four cells of the paired table. The p-value is the level whose
    interval ends at zero, by bisection.
    """
    runs, n = values.shape[-2:]
    if not n:
        return np.zeros(()), -np.ones(()), np.ones(()), np.ones(())
    mean = values.mean(axis=(-2, -1))
    among, *squares = _parts(values, cells)
    centre, pseudo = n * mean / (n + 2), 2 * n * mean**2 / (n + 2) + 1 / runs
    shared, whole = ((part + pseudo) / (n + 2) ** 2 for part in squares)

    def excludes_zero(exponent: np.ndarray) -> np.ndarray:
        return _reach(runs, 10**exponent, among, shared, whole) < np.abs(centre)

    reach = _reach(runs, ALPHA, among, shared, whole)
    low, high = np.maximum(centre - reach, -1), np.minimum(centre + reach, 1)
    return mean, low, high, 10 ** _least(excludes_zero, np.full_like(mean, -30.0), np.zeros_like(mean))


def _least(passes: Callable[[Any], Any], below: Any, above: Any) -> np.ndarray:
    """Return the least numbers that pass, by bisection; all greater ones pass, and `above` is taken to."""
    for _ in range(50):
        middle = (below + above) / 2
        passed = passes(middle)
        below, above = np.where(passed, below, middle), np.where(passed, middle, above)
    return above


def _reach(runs: int, level: Any, among: Any, shared: Any, whole: Any) -> np.ndarray:
    """Return half the width of an interval from the variances of `_parts`."""
    normal = _quantile(1, level) ** 2
    return np.sqrt(np.maximum(_quantile(runs, level) ** 2 * among + normal * shared, FLOOR * normal * whole))


def _quantile(runs: int, level: np.ndarray | float) -> np.ndarray:
    """Return the two-sided quantile of Student's distribution for a spread between runs; one run: normal."""
    return -stdtrit(runs - 1 if runs > 1 else np.inf, np.asarray(level) / 2)


def _parts(values: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the variance of the mean that training runs show, 0 with one run; n^2 times the part of the
    instances that all runs share; and n^2 times the part of the instances with the residual.

    The first two parts have the quantile of their own degrees of freedom, and their squares add up (Graybill
    and Wang 1980, Journal of the American Statistical Association 75:869). The last part sets a lower limit,
    see `FLOOR`.
    """
    runs = values.shape[-2]
    whole = _within(values.mean(axis=-2), cells)
    if runs == 1:
        return np.zeros_like(whole), whole, whole
    residual = _within(values - values.mean(axis=-2, keepdims=True), cells).sum(axis=-1) / (runs - 1)
    among = values.mean(axis=-1).var(axis=-1, ddof=1) / runs
    return among, np.maximum(whole - residual / runs, 0), whole


def _within(values: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return n^2 times the estimated variance of the mean over n stratified instances, the last axis. In one
    cell it is the sum of squares around the mean."""
    sizes = np.bincount(cells)
    means = values @ np.eye(len(sizes))[cells] / sizes
    return ((values - means[..., cells]) ** 2) @ _unbiased(sizes)[cells]


def _unbiased(sizes: np.ndarray) -> np.ndarray:
    """Return factors of the sums of squares within cells: n_c / (n_c - 1), so scaled that one cell has 1."""
    return sizes / np.maximum(sizes - 1, 1) * (1 - 1 / sizes.sum()) if len(sizes) > 1 else np.ones(1)


def _groups(sizes: np.ndarray) -> np.ndarray:
    """Return the cell of each stratum, numbered from 0: strata of one instance are pooled, a single one with
    the largest stratum."""
    single = sizes == 1
    labels = np.arange(len(sizes))
    labels[single] = np.argmax(sizes if single.sum() == 1 else single)
    return np.unique(labels, return_inverse=True)[1]


def _checked(values: ArrayLike, strata: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    """Return values of shape (runs, instances) and the cell of each instance."""
    array = np.atleast_2d(np.asarray(values, float))
    if array.ndim != 2 or not len(array) or (strata is not None and np.shape(strata) != array.shape[1:]):
        raise ValueError(f"values: shape {array.shape} is wrong; expected (runs, instances) as of the strata")
    if strata is None:
        return array, np.zeros(array.shape[1], int)
    _, codes, sizes = np.unique(np.asarray(strata), return_inverse=True, return_counts=True)
    return array, _groups(sizes)[codes]


def _wilson(mean: np.ndarray, n: np.ndarray, quantile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of Wilson's score interval (1927, Journal of the American Statistical Association 22:209)."""
    square = quantile**2 / n
    centre, reach = mean + square / 2, np.sqrt(square * (mean * (1 - mean) + square / 4))
    low, high = ((centre + side * reach) / (1 + square) for side in (-1, 1))
    return np.where(mean > 0, np.minimum(low, mean), 0.0), np.where(mean < 1, np.maximum(high, mean), 1.0)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return adjusted p-values in the given order (Holm 1979, Scandinavian Journal of Statistics 6:65)."""
    order = np.argsort(p_values, kind="stable")
    steps = np.array(p_values, dtype=float)[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.tolist()


def detectable(runs: int, instances: int, tests: int = 1, run_sd: float = 0.01) -> float:
    """Return the smallest true difference that is significant with 80 % power after Holm's first step.

    `run_sd` is the standard deviation of the paired change's mean between training runs, not used with one
    run; the others are such that 22 % of the outcomes change. Above 1 no difference is.
    """
    instance_sd, residual = 0.25, 0.4**2 / instances / runs
    among = run_sd**2 / runs + residual if runs > 1 else 0.0
    whole = instance_sd**2 / instances + residual
    shared = whole - residual if runs > 1 else whole
    level, upper = ALPHA / tests, 1 - (np.arange(500) + 0.5) / 500
    seen = among * chdtri(max(runs - 1, 1), upper) / max(runs - 1, 1)
    reach, sd = _reach(runs, level, seen, shared, whole), np.sqrt(among + shared)
    return float(_least(lambda size: ndtr((size - reach) / sd).mean() >= 0.8, 0.0, 100.0))
