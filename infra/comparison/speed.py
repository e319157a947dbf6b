"""How many training tokens an arm needs to get where a baseline ends."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from envgen.frozen import Frozen
from infra.comparison.finished import Finished

RESAMPLES, FEWEST = 999, 3
"""Resamples of the interval, and seeds below which there is none."""
Share = Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
"""Of the training tokens that the baseline has spent; None: that rate is not reached."""


class Speed(Frozen):
    """The training tokens at which the mean curve of an arm reaches the last rate of a baseline, as a share
    of all that the baseline spent."""

    value: Share
    interval: tuple[Share, Share] | None
    """95 %, bootstrap over seeds; None with too few."""

    def __str__(self) -> str:
        """`61 % [44, 90]`, `not reached`."""
        ends = [_written(end) for end in self.interval or ()]
        whole = "not reached" if self.value is None else f"{_written(self.value)}\u00a0%"
        return whole + (f" [{', '.join(ends)}]" if ends and set(ends) != {_written(None)} else "")


def speed(arm: Sequence[Finished], base: Sequence[Finished]) -> Speed:
    """Return how soon an arm gets where a baseline ends, over runs of the same seeds in the same order."""
    curves = np.array([run.curve.mean(axis=1) for run in arm])
    ends = np.array([run.curve[-1].mean() for run in base])
    tokens, spent = np.array([run.tokens for run in arm]), np.array([run.tokens[-1] for run in base])
    every = np.arange(len(ends))
    drawn = np.random.default_rng(0).integers(len(ends), size=(RESAMPLES, len(ends)))
    value, *resampled = (
        _reached(curves[seeds].mean(axis=0), tokens[seeds].mean(axis=0), ends[seeds].mean())
        / spent[seeds].mean()
        for seeds in (every, *drawn)
    )
    low, high = np.quantile(resampled, (0.025, 0.975), method="inverted_cdf")
    return Speed(value=_share(value), interval=(_share(low), _share(high)) if len(ends) >= FEWEST else None)


def _reached(curve: np.ndarray, tokens: np.ndarray, target: float) -> float:
    """Return the tokens at which a curve first reaches a height; infinity if it does not."""
    above = np.flatnonzero(curve >= target - 1e-9)  # a curve reaches its own end
    if not above.size:
        return np.inf
    if not (after := int(above[0])):
        return 0.0
    return float(np.interp(target, curve[after - 1 : after + 1], tokens[after - 1 : after + 1]))


def _share(value: float) -> Share:
    return float(value) if np.isfinite(value) else None


def _written(value: Share) -> str:
    return "never" if value is None else f"{100 * value:.0f}"
