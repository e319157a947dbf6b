"""Rates and differences over seeds and instances: estimate, interval, p-value.

Values are arrays of shape (seeds, instances), because every seed is judged on the same instances. Both are
samples, of training runs and of instances, and a claim is about runs and instances that were not drawn; so
both are random effects (Clark 1973, "The language-as-fixed-effect fallacy", Journal of Verbal Learning and
Verbal Behavior 12:335). For a value y_si = m + a_s + b_i + e_si the mean squares of seeds, instances and
residual, A, B and E, have the expectations e^2 + I a^2, e^2 + S b^2 and e^2, and the mean over all S I
values has the variance (A + B - E) / (S I), which is estimated so. Its degrees of freedom follow
Satterthwaite (1946, "An approximate distribution of estimates of variance components", Biometrics Bulletin
2:110). With one seed only the instances vary, and the interval says nothing about how another seed would
have fared.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit  # scipy.stats takes two seconds to import

from envgen.breakdown import Difference, Rate, wilson

ALPHA = 0.05
"""Two-sided: intervals hold in 95 % of cases."""
_NO_WIDTH = 1e-9
"""What rounding makes of an interval without width."""


class Effect(Difference):
    """A mean difference of rates over seeds and instances, -1 to 1, with the interval of `effect`."""

    error: float
    """Standard error of the value."""
    freedom: float
    """Degrees of freedom of the error."""
    seeds: int
    p: float
    """Two-sided, of no difference."""

    @property
    def sign(self) -> int:
        """1 or -1 if the interval lies above or below zero, 0 if it holds zero."""
        return int(self.low > 0) - int(self.high < 0)


class Crossed(NamedTuple):
    """The mean of values over seeds and instances."""

    mean: float
    error: float
    freedom: float

    @property
    def reach(self) -> float:
        """Half the width of the 95 % interval."""
        return float(stdtrit(self.freedom, 1 - ALPHA / 2)) * self.error


def effect(change: np.ndarray) -> Effect:
    """The mean of paired differences, an arm minus a baseline, of shape (seeds, instances)."""
    result = crossed(change)
    mean, error, freedom = result
    return Effect(
        value=mean,
        low=mean - result.reach,
        high=mean + result.reach,
        error=error,
        freedom=freedom,
        seeds=len(change),
        p=float(2 * stdtr(freedom, -abs(mean) / error)) if error else float(mean == 0),
    )


def rate(outcomes: np.ndarray) -> Rate:
    """The mean of outcomes from 0 to 1, of shape (seeds, instances), with its interval, cut off at 0 and 1.

    Where all outcomes are the same, and for a single seed, it is the Wilson interval over the instances.
    """
    instances = outcomes.shape[1]
    if len(outcomes) == 1:
        return wilson(float(outcomes.sum()), instances)
    result = crossed(outcomes)
    if result.reach < _NO_WIDTH:
        return wilson(result.mean * instances, instances)
    return Rate(
        value=result.mean, low=max(0.0, result.mean - result.reach), high=min(1.0, result.mean + result.reach)
    )


def crossed(values: np.ndarray) -> Crossed:
    """Mean, standard error and degrees of freedom of values of shape (seeds, instances), more than one in
    all.

    A + B - E, see above, can be too small by chance, and below zero; it is at least the larger of A and B
    here, so that neither seeds nor instances are ever taken to vary less than they were seen to. Degrees of
    freedom are kept between the number for the seeds (or the instances, if they are fewer) and the number for
    both together.
    """
    if values.ndim != 2 or values.size < 2:
        raise ValueError(
            f"values need the shape (seeds, instances), more than one in all, got {values.shape}"
        )
    seeds, instances = values.shape
    values = values.astype(np.float64)
    mean = values.mean()
    by_seed, by_instance = values.mean(axis=1), values.mean(axis=0)
    residual = values - by_seed[:, None] - by_instance + mean
    free = seeds - 1, instances - 1, (seeds - 1) * (instances - 1)
    sums = (
        instances * ((by_seed - mean) ** 2).sum(),
        seeds * ((by_instance - mean) ** 2).sum(),
        (residual**2).sum(),
    )
    squares = [float(total / count) if count else 0.0 for total, count in zip(sums, free, strict=True)]
    of_seeds, of_instances, of_rest = squares
    total = max(of_seeds + of_instances - of_rest, of_seeds, of_instances)
    spread = sum(square**2 / count for square, count in zip(squares, free, strict=True) if count)
    freedom = total**2 / spread if spread else 0.0
    least = min(count for count in free if count)
    return Crossed(
        float(mean), float(np.sqrt(total / values.size)), float(np.clip(freedom, least, free[0] + free[1]))
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given (Holm 1979, Scandinavian Journal of Statistics 6:65)."""
    order = np.argsort(p_values, kind="stable")
    steps = np.array(p_values, dtype=float)[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.tolist()
