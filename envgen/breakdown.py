"""Failure breakdown: what a policy got right and wrong, counted per map size, with intervals."""

import math
from collections.abc import Iterable
from typing import Self

import numpy as np
from pydantic import Field, NonNegativeInt, model_validator

from envgen.frozen import Frozen
from envgen.mapf.verifier import FailureCategory, Verdict

_Z = 1.959963984540054
"""The standard normal distribution's 97.5 % quantile."""


class Rate(Frozen):
    """A share of successes with its 95 % Wilson interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}]"


class Difference(Frozen):
    """A difference of two rates on the same instances with its 95 % paired bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.1%} [{self.low:+.1%}, {self.high:+.1%}]"


class SizeBreakdown(Frozen):
    """Counts of one map size (or of all sizes together)."""

    n: int = Field(ge=0)
    valid: int = Field(ge=0)
    optimal: int = Field(ge=0)
    failures: dict[FailureCategory, NonNegativeInt]
    arrived: float | None = Field(default=None, ge=0, le=1)
    """Mean share of agents whose path ends on their goal; None if only the counts are known."""
    excess_cost: float | None = Field(default=None, ge=0)
    """Mean sum of costs above the optimum over the valid answers.

    None without valid answers, or if only the counts are known.
    """
    truncated: int | None = Field(default=None, ge=0)
    """Answers that hit the token limit; None if only the counts are known."""
    waiting: int | None = Field(default=None, ge=0)
    """Instances whose optimal plan needs a wait; None if only the counts are known."""
    waiting_valid: int | None = Field(default=None, ge=0)
    """Valid answers to them."""

    @model_validator(mode="after")
    def _add_up(self) -> Self:
        if self.optimal > self.valid or self.valid + sum(self.failures.values()) != self.n:
            raise ValueError(
                f"{self.valid} valid, {self.optimal} of them optimal, "
                f"and {sum(self.failures.values())} failures do not make {self.n} answers"
            )
        if (self.waiting is None) != (self.waiting_valid is None):
            raise ValueError(
                f"waiting {self.waiting} and waiting_valid {self.waiting_valid}: give both or none"
            )
        waiting, valid = self.waiting or 0, self.waiting_valid or 0
        if valid > waiting or valid > self.valid or self.valid - valid > self.n - waiting:
            raise ValueError(
                f"{waiting} of {self.n} answers where a wait is needed and {valid} of {self.valid} valid "
                "ones do not fit together"
            )
        return self

    @property
    def valid_rate(self) -> Rate:
        """Share of valid answers."""
        return wilson(self.valid, self.n)

    @property
    def optimal_rate(self) -> Rate:
        """Share of answers that are valid and cost the optimum."""
        return wilson(self.optimal, self.n)

    @property
    def waiting_rate(self) -> Rate | None:
        """Share of valid answers where a wait is needed; None where that is not known, or nowhere."""
        return wilson(self.waiting_valid or 0, self.waiting) if self.waiting else None

    @property
    def moving_rate(self) -> Rate | None:
        """Share of valid answers where no wait is needed; None where that is not known, or nowhere."""
        if self.waiting is None or self.waiting == self.n:
            return None
        return wilson(self.valid - (self.waiting_valid or 0), self.n - self.waiting)

    @property
    def valid_percent(self) -> int:
        """Share of valid answers in whole percent, as it is shown; 0 without answers."""
        return round(100 * self.valid / self.n) if self.n else 0

    @property
    def waiting_percent(self) -> int | None:
        """The same where a wait is needed; None where that is not known, or nowhere."""
        return round(100 * (self.waiting_valid or 0) / self.waiting) if self.waiting else None

    @property
    def moving_percent(self) -> int | None:
        """The same where no wait is needed; None where that is not known, or nowhere."""
        if self.waiting is None or self.waiting == self.n:
            return None
        return round(100 * (self.valid - (self.waiting_valid or 0)) / (self.n - self.waiting))

    @property
    def arrived_rate(self) -> Rate | None:
        """Mean share of agents that end on their goals. Its interval errs on the wide side, see `wilson`."""
        return None if self.arrived is None else wilson(self.arrived * self.n, self.n)


class Breakdown(Frozen):
    """Failure breakdown of one evaluation: map size -> counts."""

    sizes: dict[int, SizeBreakdown] = Field(min_length=1)

    @property
    def overall(self) -> SizeBreakdown:
        """All map sizes together."""
        parts = self.sizes.values()
        return SizeBreakdown(
            n=sum(p.n for p in parts),
            valid=sum(p.valid for p in parts),
            optimal=sum(p.optimal for p in parts),
            failures={c: sum(p.failures.get(c, 0) for p in parts) for c in FailureCategory},
            arrived=_mean((part.arrived, part.n) for part in parts),
            excess_cost=_mean((part.excess_cost, part.valid) for part in parts),
            truncated=_sum(part.truncated for part in parts),
            waiting=_sum(part.waiting for part in parts),
            waiting_valid=_sum(part.waiting_valid for part in parts),
        )


def count_verdicts(sized: Iterable[tuple[int, Verdict]]) -> Breakdown:
    """The breakdown of (map size, verdict) pairs."""
    by_size: dict[int, list[Verdict]] = {}
    for size, verdict in sized:
        by_size.setdefault(size, []).append(verdict)
    return Breakdown(
        sizes={
            size: SizeBreakdown(
                n=len(verdicts),
                valid=sum(v.valid for v in verdicts),
                optimal=sum(v.optimal for v in verdicts),
                failures={c: sum(v.category is c for v in verdicts) for c in FailureCategory},
                # fsum: the same whatever the order of the answers.
                arrived=math.fsum(v.arrived for v in verdicts) / len(verdicts),
            )
            for size, verdicts in sorted(by_size.items())
        }
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum of counts; None if one of them is unknown."""
    known = list(counts)
    return None if None in known else sum(count or 0 for count in known)


def _mean(weighted: Iterable[tuple[float | None, int]]) -> float | None:
    """The mean of (value, weight) pairs; None without weight, or if a value with weight is unknown."""
    counted = [(value, weight) for value, weight in weighted if weight]
    if not counted or any(value is None for value, _ in counted):
        return None
    return math.fsum((value or 0.0) * weight for value, weight in counted) / sum(
        weight for _, weight in counted
    )


def wilson(successes: float, total: int) -> Rate:
    """95 % Wilson score interval of a binomial proportion (Wilson 1927); an empty sample spans 0 to 1.

    `successes` may be a sum of shares between 0 and 1. Shares vary no more than outcomes of 0 and 1 with the
    same mean, so that the interval then errs on the wide side.
    """
    if total == 0:
        return Rate(value=0.0, low=0.0, high=1.0)
    share = successes / total
    centre = share + _Z * _Z / (2 * total)
    reach = _Z * math.sqrt(share * (1 - share) / total + _Z * _Z / (4 * total * total))
    scale = 1 + _Z * _Z / total
    low = (centre - reach) / scale if successes else 0.0
    return Rate(value=share, low=low, high=(centre + reach) / scale if successes < total else 1.0)


def paired_difference(
    before: np.ndarray, after: np.ndarray, *, seed: int = 0, resamples: int = 9_999
) -> Difference:
    """Mean of `after - before` over paired 0/1 outcomes, with a percentile bootstrap interval over instances.

    Both arrays have shape (instances,), in the same order; an empty sample spans -1 to 1.
    """
    if before.shape != after.shape:
        raise ValueError(f"paired outcomes need equal shapes, got {before.shape} and {after.shape}")
    if not len(before):
        return Difference(value=0.0, low=-1.0, high=1.0)
    change = after.astype(np.int8) - before.astype(np.int8)
    counts = np.array([(change == value).sum() for value in (-1, 0, 1)])
    # Resampling n differences with replacement is a multinomial draw over their three possible values.
    draws = np.random.default_rng(seed).multinomial(len(change), counts / len(change), size=resamples)
    means = (draws[:, 2] - draws[:, 0]) / len(change)
    low, high = np.percentile(means, [2.5, 97.5])
    return Difference(value=float(change.mean()), low=float(low), high=float(high))
