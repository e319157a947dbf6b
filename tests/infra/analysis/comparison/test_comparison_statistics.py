"""The intervals of a comparison against draws made in the plainest way, an exact variance, and cases whose answer is known."""

import numpy as np
import pytest

from envgen.breakdown import wilson
from infra.analysis.comparison.statistics import area, difference, rate, resampled_means


def table(seeds: int, instances: int, seed: int = 0, spread: float = 0.3) -> np.ndarray:
    """Outcomes that depend on the seed and on the instance."""
    rng = np.random.default_rng(seed)
    chance = np.clip(0.4 + spread * rng.normal(size=(seeds, 1)) + spread * rng.normal(size=(1, instances)), 0, 1)
    return rng.uniform(size=(seeds, instances)) < chance


def exact_variance(values: np.ndarray) -> float:
    """Variance of the mean of a resample of rows and of columns, from the covariances of multinomial counts."""
    seeds, instances = values.shape
    rows = (np.eye(seeds) + 1 - 1 / seeds) / seeds**2
    columns = (np.eye(instances) + 1 - 1 / instances) / instances**2
    second = np.einsum("ab,ij,ai,bj->", rows, columns, values.astype(float), values.astype(float))
    return second - values.mean() ** 2


def plainly_resampled(values: np.ndarray, resamples: int) -> np.ndarray:
    rng = np.random.default_rng(99)
    seeds, instances = values.shape
    return np.array([values[rng.integers(seeds, size=seeds)][:, rng.integers(instances, size=instances)].mean() for _ in range(resamples)])


@pytest.mark.parametrize("shape", [(1, 50), (2, 7), (3, 40), (10, 30)])
def test_resamples_have_the_mean_and_the_variance_that_follow_from_the_counts(shape: tuple[int, int]):
    values = table(*shape)
    means = resampled_means(values, 40_000)
    deviation = exact_variance(values) ** 0.5
    assert means.mean() == pytest.approx(values.mean(), abs=5 * deviation / 200)
    assert means.std() == pytest.approx(deviation, rel=0.02)


def test_the_interval_is_that_of_a_plain_bootstrap():
    values = table(4, 60)
    low, high = np.percentile(plainly_resampled(values, 20_000), [2.5, 97.5])
    found = rate(values)
    assert found.value == values.mean()
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.015)


def test_the_interval_of_a_difference_is_that_of_a_plain_paired_bootstrap():
    one, other = table(4, 60, seed=1), table(4, 60, seed=2)
    low, high = np.percentile(plainly_resampled(one.astype(int) - other, 20_000), [2.5, 97.5])
    found = difference(one, other)
    assert found.value == pytest.approx(one.mean() - other.mean())
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.02)


def test_one_seed_resamples_instances_only():
    values = table(1, 400)
    share = values.mean()
    assert np.var(resampled_means(values, 40_000)) == pytest.approx(share * (1 - share) / 400, rel=0.03), "the binomial variance"


def test_seeds_that_differ_widen_the_interval():
    alike = np.repeat(table(1, 200), 5, axis=0)
    shuffled = np.stack([np.roll(row, 0) for row in alike])
    shuffled[0], shuffled[1] = True, False
    wide, narrow = rate(shuffled), rate(alike)
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_identical_arms_differ_by_exactly_nothing():
    values = table(3, 50)
    found = difference(values, values.copy())
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_a_difference_everywhere_is_certain():
    found = difference(np.ones((2, 9), dtype=bool), np.zeros((2, 9), dtype=bool))
    assert (found.value, found.low, found.high) == (1, 1, 1)


def test_a_difference_changes_its_sign_with_its_arms():
    one, other = table(3, 50, seed=1), table(3, 50, seed=2)
    there, back = difference(one, other), difference(other, one)
    assert there.value == -back.value
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-12)


def test_pairing_makes_the_interval_narrow_where_instances_decide():
    base = np.repeat(table(1, 300), 3, axis=0)
    better = base.copy()
    better[:, :6] = True
    paired = difference(better, base)
    assert paired.high - paired.low < rate(better).high - rate(better).low


@pytest.mark.parametrize("seeds", [1, 3])
def test_nothing_and_everything_right_have_an_interval_over_the_instances(seeds: int):
    none, every = rate(np.zeros((seeds, 40), dtype=bool)), rate(np.ones((seeds, 40), dtype=bool))
    assert none == wilson(0, 40)
    assert every == wilson(40, 40)
    assert 0.05 < none.high < 0.15
    assert (none.low, every.high) == (0, 1)


def test_an_interval_with_width_is_left_as_it_is():
    values = np.zeros((1, 40), dtype=bool)
    values[0, :3] = True
    low, high = np.percentile(resampled_means(values), [2.5, 97.5])
    assert (rate(values).low, rate(values).high) == (low, high)


def test_the_same_arrays_give_the_same_interval():
    assert rate(table(3, 50)) == rate(table(3, 50))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (5,)])
def test_no_outcomes_have_no_rate(shape: tuple[int, ...]):
    with pytest.raises(ValueError, match="seeds, instances"):
        rate(np.zeros(shape))


def test_what_is_not_paired_has_no_difference():
    with pytest.raises(ValueError, match="equal shapes"):
        difference(np.zeros((2, 5)), np.zeros((3, 5)))


def test_the_area_is_that_of_trapezoids_over_the_steps():
    stages = [table(2, 20, seed=seed) for seed in range(4)]
    means = [stage.mean() for stage in stages]
    assert area(stages).mean() == pytest.approx(np.trapezoid(means) / 3)
    assert area(stages).shape == (2, 20)
    assert (area(stages[:1]) == stages[0]).all(), "of one stage it is the height there"
    assert (area([stages[0]] * 5) == stages[0]).all()
