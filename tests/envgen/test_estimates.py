"""Estimates against published formulas, scipy, cases by hand, and simulated worlds whose truth is given."""

import numpy as np
import pytest
from board_makers import repeatable
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, false_discovery_control, norm
from support.worlds import cells_of, changes, covered, false_ahead, outcomes

from envgen.estimates import ALPHA, detectable, difference, difference_bounds, holm, rate, rate_bounds, wilson


@pytest.mark.parametrize(
    ("successes", "total"), [(0, 10), (10, 10), (7, 10), (1, 3), (81, 263), (899, 900), (1, 3_150)]
)
def test_a_rate_of_one_run_in_one_cell_is_wilsons(successes: int, total: int):
    expected = binomtest(successes, total).proportion_ci(method="wilson")
    outcomes = np.arange(total) < successes
    for estimate in (wilson(successes, total), rate(outcomes), rate(outcomes[None], np.zeros(total))):
        assert estimate.value == pytest.approx(successes / total)
        assert (estimate.low, estimate.high) == pytest.approx(expected, abs=1e-12)
    assert str(wilson(81, 263)) == "30.8% [25.5%, 36.6%]", "the worked example of Newcombe (1998)"


@pytest.mark.parametrize(("rises", "falls", "total"), [(0, 0, 51), (5, 0, 17), (12, 20, 180), (9, 9, 18)])
def test_a_difference_of_one_run_in_one_cell_is_that_of_agresti_and_min(rises: int, falls: int, total: int):
    change = np.repeat([1, -1, 0], [rises, falls, total - rises - falls])
    b, c, n = rises + 0.5, falls + 0.5, total + 2
    error = np.sqrt(b + c - (b - c) ** 2 / n) / n
    ends = (b - c) / n - norm.ppf(0.975) * error, (b - c) / n + norm.ppf(0.975) * error
    estimate = difference(change)
    assert (estimate.low, estimate.high) == pytest.approx(ends)
    assert estimate.p == pytest.approx(2 * norm.sf(abs(b - c) / n / error))
    assert estimate.value == pytest.approx((rises - falls) / total)


def test_strata_take_their_means_out_of_the_variance():
    easy_and_hard, strata = np.repeat([1, 0, 1, 0], [27, 3, 3, 27]), np.repeat([0, 1], 30)
    stratified, plain = rate(easy_and_hard, strata), rate(easy_and_hard)
    assert wilson([27, 3], [30, 30]).low == pytest.approx(stratified.low), "counts are enough"
    # Variance within strata 0.09 against 0.25; 60 instances are worth nearly 60 * 0.25 / 0.09.
    assert stratified.high - stratified.low == pytest.approx(0.62 * (plain.high - plain.low), abs=0.02)
    change = np.repeat([1, -1], 30)
    assert 0 < difference(change, strata).high < difference(change).high / 3, "never without width"


def test_a_stratum_of_one_instance_has_no_variance_of_its_own():
    outcomes = np.array([1, 0, 1, 1, 0, 1])
    assert rate(outcomes, [0, 0, 0, 0, 0, 1]) == rate(outcomes), "joins the largest stratum"
    assert rate(outcomes, list("aaaabc")) == rate(outcomes, list("aaaabb")), "two are pooled"
    assert wilson([3, 0, 1], [4, 1, 1]).low == pytest.approx(rate(outcomes, list("aaaabb")).low)


def test_nothing_is_certain_while_something_was_judged():
    assert (difference([]).low, difference([]).high, difference([]).p) == (-1, 1, 1)
    assert (rate([]).low, rate([]).high, wilson(0, 0).high) == (0, 1, 1)
    for runs in (1, 3):
        same = difference(np.zeros((runs, 51)))
        assert (same.value, same.p, same.sign) == (0, 1, 0)
        assert same.low < 0 < same.high
        assert rate(np.ones((runs, 40))).low == pytest.approx(wilson(40, 40).low)
    assert difference(np.zeros(51)).high == pytest.approx(1.96 / 53, abs=1e-4)
    assert difference(np.ones(9)).sign == -difference(-np.ones(9)).sign == 1
    for shape in ((0, 5), (2, 3, 4)):
        with pytest.raises(ValueError, match=r"expected \(runs, instances\)"):
            difference(np.zeros(shape))


@repeatable
@given(st.integers(1, 4), st.integers(1, 40), st.integers(1, 4), st.integers(0, 99))
def test_intervals_hold_their_value_and_agree_with_p(runs: int, instances: int, strata: int, seed: int):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, strata, instances)
    change = difference(rng.choice([-1, 0, 0, 1, 1], (runs, instances)), labels)
    assert -1 <= change.low <= change.value <= change.high <= 1
    assert (change.p < ALPHA) == (not change.low <= 0 <= change.high) == bool(change.sign)
    share = rate(rng.random((runs, instances)) < 0.7, labels)
    assert 0 <= share.low <= share.value <= share.high <= 1


@pytest.mark.parametrize("runs", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [(17, 1), (60, 1), (180, 9), (540, 9)])
def test_intervals_cover_the_truth_as_often_as_they_say(runs: int, size: tuple[int, int]):
    rng, cells = np.random.default_rng(1), cells_of(*size)
    differences, rates = [], []
    for run_sd in (0.0, 0.01, 0.02) if runs > 1 else (0.0,):
        trials = 1_200 if runs > 1 else 2_400
        for batch in range(4):
            shape = (trials // 4, runs, len(cells))
            change = changes(rng, shape, cells, run_sd, (0.2, 0.35)[batch % 2])
            differences.append(covered(difference_bounds(change, cells), 0.01))
            values, truth = outcomes(rng, shape, cells, run_sd, (0.35, 0.5)[batch % 2])
            rates.append(covered(rate_bounds(values, cells), truth))
    # Several runs: wide rather than often wrong, see docs/statistics.md.
    highest = 0.975 if runs == 1 else 0.99
    assert 0.93 <= np.mean(differences) <= highest
    assert 0.93 <= np.mean(rates) <= highest


@pytest.mark.parametrize(("runs", "run_sd"), [(1, 0.0), (2, 0.01), (3, 0.02), (5, 0.02)])
def test_few_comparisons_of_equal_arms_put_one_ahead(runs: int, run_sd: float):
    share = false_ahead(np.random.default_rng(2), 1_000, runs, 180, run_sd)
    assert share <= 0.05


@pytest.mark.parametrize(
    ("runs", "instances", "tests"), [(1, 540, 1), (2, 540, 1), (3, 180, 1), (5, 540, 13)]
)
def test_the_detectable_difference_is_shown_in_four_of_five_cases(runs: int, instances: int, tests: int):
    rng, truth = np.random.default_rng(3), detectable(runs, instances, tests)
    values = 0.01 * (runs > 1) * rng.normal(size=(1_000, runs, 1)) + rng.normal(
        truth, 0.25, (1_000, 1, instances)
    )
    values = values + 0.4 * rng.normal(size=(1_000, runs, instances))
    p = difference_bounds(values, np.zeros(instances, int))[3]
    assert np.mean(p < ALPHA / tests) == pytest.approx(0.8, abs=0.05)
    assert detectable(2, 180, 13) > 1, "two runs cannot show a difference after Holm"


def test_holm_is_the_one_of_the_textbook():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    p = np.random.default_rng(3).uniform(size=8)
    assert np.all(np.array(holm(p.tolist())) >= false_discovery_control(p)), "stricter than Benjamini's"
