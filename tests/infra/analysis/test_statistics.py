"""Effects against a case computed by hand, against scipy, and by how often their intervals hold the truth."""

import numpy as np
import pytest
from scipy.stats import false_discovery_control, ttest_1samp
from scipy.stats import t as student

from envgen.breakdown import wilson
from infra.analysis.statistics import crossed, effect, holm, rate


def test_a_tiny_case_is_as_computed_by_hand():
    # Seed means 2 and 4, instance means 1.5, 2.5, 5; mean 3; residuals 0.5, -0.5, 0 and their opposites.
    # A = 3 * (1 + 1) / 1 = 6; B = 2 * (2.25 + 0.25 + 4) / 2 = 6.5; E = 4 * 0.25 / 2 = 0.5; A + B - E = 12
    # over 6 values.
    mean, error, freedom = crossed(np.array([[1.0, 1.0, 4.0], [2.0, 4.0, 6.0]]))
    assert (mean, error) == (3, pytest.approx(2**0.5))
    assert freedom == pytest.approx(min(144 / (36 / 1 + 42.25 / 2 + 0.25 / 2), 3))
    found = effect(np.array([[1.0, 1.0, 4.0], [2.0, 4.0, 6.0]]))
    assert (found.low, found.high) == pytest.approx(
        (3 - student.ppf(0.975, freedom) * 2**0.5, 3 + student.ppf(0.975, freedom) * 2**0.5)
    )
    assert found.p == pytest.approx(2 * student.sf(3 / 2**0.5, freedom))


@pytest.mark.parametrize("axis", [0, 1])
def test_where_only_one_of_both_varies_it_is_students_test(axis: int):
    means = np.random.default_rng(0).normal(0.1, 1, 12)
    values = np.repeat(means[:, None], 5, axis=1)
    values = values.T if axis else values
    found, plain = effect(values), ttest_1samp(means, 0)
    assert found.p == pytest.approx(plain[1])
    assert (found.low, found.high) == pytest.approx(
        student.interval(0.95, 11, means.mean(), means.std(ddof=1) / 12**0.5)
    )


def test_the_variance_is_never_below_what_seeds_or_instances_show():
    values = np.array([[1.0, -1.0, 1.0, -1.0], [-1.0, 1.0, -1.0, 1.0]])
    assert crossed(values) == (0, 0, 1), "nothing but residual: neither seeds nor instances vary"
    for seed in range(50):
        values = np.random.default_rng(seed).integers(-1, 2, (4, 30)).astype(float)
        least = max(values.mean(axis=1).var(ddof=1) / 4, values.mean(axis=0).var(ddof=1) / 30)
        _, error, freedom = crossed(values)
        assert error**2 >= least - 1e-12
        assert 3 <= freedom <= 32


@pytest.mark.parametrize("seed_spread", [0.0, 0.02])
@pytest.mark.parametrize("instance_spread", [0.0, 0.1])
def test_intervals_hold_the_truth_about_as_often_as_they_say(seed_spread: float, instance_spread: float):
    rng = np.random.default_rng(1)
    trials, seeds, instances, truth = 1_500, 5, 840, 0.01
    held = 0
    for _ in range(trials):
        chance = seed_spread * rng.normal(size=(seeds, 1)) + instance_spread * rng.normal(size=(1, instances))
        # A change of an outcome is -1, 0 or 1; its mean is the chance, about one answer in three changes.
        draws = rng.random((seeds, instances), dtype=np.float32)
        values = (draws < 0.17 + (truth + chance) / 2).astype(np.int8) - (draws > 0.83 + (truth + chance) / 2)
        found = effect(values)
        held += found.low <= truth <= found.high
    assert 0.92 <= held / trials <= 0.99


def test_arms_that_answered_alike_differ_by_exactly_nothing():
    found = effect(np.zeros((3, 9)))
    assert (found.value, found.low, found.high, found.p, found.sign) == (0, 0, 0, 1, 0)
    assert effect(np.ones((3, 9))).p == 0
    assert effect(-np.ones((3, 9))).sign == -1


def test_holm_is_the_one_of_the_textbook():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    p = np.random.default_rng(3).uniform(size=8)
    assert np.all(np.array(holm(p.tolist())) >= false_discovery_control(p)), (
        "stricter than Benjamini and Hochberg"
    )


def test_a_rate_stays_between_0_and_1_and_falls_back_on_wilson():
    outcomes = np.zeros((3, 40), dtype=bool)
    assert rate(outcomes) == wilson(0, 40)
    assert rate(~outcomes) == wilson(40, 40)
    outcomes[0, :2] = True
    found = rate(outcomes)
    assert found.low == 0 < found.value < found.high
    assert rate(outcomes[:1]) == wilson(2, 40), "one seed says nothing of seeds"


def test_with_one_seed_only_the_instances_vary():
    values = np.random.default_rng(2).integers(-1, 2, (1, 40)).astype(float)
    plain = ttest_1samp(values[0], 0)
    found = effect(values)
    assert (found.freedom, found.p) == (39, pytest.approx(plain[1]))
    assert (found.low, found.high) == pytest.approx(tuple(plain.confidence_interval()))


def test_pairing_makes_the_interval_narrow_where_instances_decide():
    base = np.repeat(np.random.default_rng(1).random((1, 300)) < 0.4, 3, axis=0)
    better = base.copy()
    better[:, :6] = True
    paired, alone = effect(better.astype(int) - base), rate(better)
    assert paired.high - paired.low < alone.high - alone.low


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (5,), (1, 1)])
def test_too_few_values_have_no_interval(shape: tuple[int, ...]):
    with pytest.raises(ValueError, match="seeds, instances"):
        effect(np.zeros(shape))
