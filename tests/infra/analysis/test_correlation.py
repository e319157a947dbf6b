"""Rank correlation between the pilot's score and the gain."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from infra.analysis.correlation import ScoredStage, rank_correlations, spearman


def test_rho_takes_ties_at_their_mean_rank_and_a_constant_side_has_none():
    assert spearman(np.array([1.0, 2, 2, 3]), np.array([1.0, 3, 2, 4])) == pytest.approx(
        4.5 / np.sqrt(4.5 * 5)
    )
    assert np.isnan(spearman(np.array([1.0, 1, 1]), np.array([1.0, 2, 3])))
    assert np.isnan(spearman(np.array([1.0, 2, 3]), np.array([1.0, 1, 1])))


def test_the_rho_of_each_row_is_that_of_scipy():
    first, second = np.random.default_rng(2).integers(0, 5, (2, 30, 8))
    expected = [spearmanr(*rows).statistic for rows in zip(first, second, strict=True)]
    assert spearman(first, second) == pytest.approx(expected)


def test_runs_may_differ_in_their_number_of_stages():
    stages = made(lambda a, rng: a / 2 - 0.25)
    whole, without = rank_correlations(stages), rank_correlations(stages[:-1])
    assert (whole[0].stages, without[0].stages) == (24, 23)
    assert without[0].value == pytest.approx(1)
    assert without[1].low < without[1].value < without[1].high


def made(gain_of) -> list[ScoredStage]:
    rng = np.random.default_rng(1)
    return [
        ScoredStage(
            run=f"r{run}",
            stage=stage,
            scores={"advantage": (a := float(rng.uniform())), "mixed": float(rng.uniform())},
            gain=gain_of(a, rng),
        )
        for run in range(12)
        for stage in (1, 2)
    ]


def test_a_score_that_orders_the_gains_has_rho_one():
    advantage, mixed = rank_correlations(made(lambda a, rng: a / 2 - 0.25))
    assert (advantage.score, advantage.value, advantage.low, advantage.high) == (
        "advantage",
        pytest.approx(1),
        pytest.approx(1),
        pytest.approx(1),
    )
    assert (advantage.stages, advantage.runs) == (24, 12)
    assert mixed.low < 0 < mixed.high, "drawn independently of the gain"


def test_noise_has_an_interval_around_zero():
    for found in rank_correlations(made(lambda a, rng: float(rng.normal() / 10))):
        assert found.low < 0 < found.high
        assert found.low < found.value < found.high


def test_too_few_runs_or_a_constant_gain_say_nothing():
    assert rank_correlations(made(lambda a, rng: a)[:4]) == ()
    assert rank_correlations(made(lambda a, rng: 0.1)) == ()
