"""Tokens to the rate that a baseline ends with."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from infra.comparison.speed import speed


def run(rates: list[float], tokens: list[float]) -> Any:
    """Return a run with these rates, on ten instances, and tokens so far, by evaluation."""
    valid = np.array([np.arange(10) < 10 * rate for rate in rates], float)
    return SimpleNamespace(curve=valid, tokens=np.array(tokens))


FIXED = run([0.2, 0.4, 0.6], [0, 100, 200])


@pytest.mark.parametrize(
    ("rates", "tokens", "said"),
    [
        ([0.2, 0.4, 0.6], [0, 100, 200], "100\u00a0%"),
        ([0.2, 0.8, 0.8], [0, 120, 240], "40\u00a0%"),  # two thirds of the first 120 of 200
        ([0.2, 0.5, 0.5], [0, 100, 200], "not reached"),
        ([0.7, 0.8, 0.8], [0, 100, 200], "0\u00a0%"),
        ([0.2, 0.7, 0.3], [0, 100, 200], "40\u00a0%"),  # reached once, whatever follows
    ],
)
def test_it_is_where_the_curve_first_reaches_the_rate_of_the_baseline(rates, tokens, said: str):
    assert str(speed([run(rates, tokens)], [FIXED])) == said


def test_the_interval_is_over_seeds_and_holds_runs_that_never_get_there():
    quick, slow = run([0.2, 0.8, 0.8], [0, 120, 240]), run([0.2, 0.3, 0.3], [0, 100, 200])
    found = speed([quick, quick, slow], [FIXED] * 3)
    assert 0.4 < (found.value or 0) < 1
    assert found.interval == (pytest.approx(0.4), None)
    assert str(found).endswith("[40, never]")
    assert str(speed([slow] * 3, [FIXED] * 3)) == "not reached"
    third = run([0.1, 0.3, 0.7], [0, 90, 180])
    assert str(speed([FIXED, third] * 2, [FIXED, third] * 2)).startswith("100\u00a0% [100, 100]")
    assert speed([quick] * 2, [FIXED] * 2).interval is None, "two seeds show no spread"
