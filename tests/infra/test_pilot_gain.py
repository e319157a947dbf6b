"""Rank correlation between the pilot's score and the gain, against scipy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from infra.comparison.pilot_gain import PilotPair, rank_correlations, spearman

values = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=3, max_size=30)


@settings(derandomize=True, deadline=None)
@given(values)
def test_rho_is_that_of_scipy_with_ties(pairs):
    first, second = np.array(pairs, dtype=float).T
    if len(set(first)) < 2 or len(set(second)) < 2:
        assert spearman(first, second) is None
    else:
        assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic)


def made(gain_of) -> list[PilotPair]:
    rng = np.random.default_rng(1)
    return [
        PilotPair(run=f"r{run}", stage=stage, advantage=(a := float(rng.uniform())), mixed=float(rng.uniform()), gain=gain_of(a, rng))
        for run in range(12)
        for stage in (1, 2)
    ]


def test_a_score_that_orders_the_gains_has_rho_one():
    advantage, mixed = rank_correlations(made(lambda a, rng: a / 2 - 0.25))
    assert (advantage.score, advantage.value, advantage.low, advantage.high) == ("advantage", pytest.approx(1), pytest.approx(1), pytest.approx(1))
    assert (advantage.stages, advantage.runs) == (24, 12)
    assert mixed.low < 0 < mixed.high, "drawn independently of the gain"


def test_noise_has_an_interval_around_zero():
    for found in rank_correlations(made(lambda a, rng: float(rng.normal() / 10))):
        assert found.low < 0 < found.high
        assert found.low < found.value < found.high


def test_too_few_runs_or_a_constant_gain_say_nothing():
    assert rank_correlations(made(lambda a, rng: a)[:4]) == ()
    assert rank_correlations(made(lambda a, rng: 0.1)) == ()
