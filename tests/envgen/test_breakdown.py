import math

import numpy as np
import pytest
from board_makers import repeatable
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import binomtest

from envgen.breakdown import Breakdown, Counts, Judged, count_verdicts, paired_difference, wilson
from envgen.mapf.space import Options, space_of
from envgen.mapf.verifier import FailureCategory, Verdict

OPTIMAL = Verdict(valid=True, optimal=True, sum_of_costs=3, makespan=2)
DETOUR = Verdict(valid=True, sum_of_costs=5, makespan=3)


def failed(category: FailureCategory) -> Verdict:
    return Verdict(valid=False, category=category)


SPACE = space_of(Options())


def counted(sized: list[tuple[int, Verdict]]) -> Breakdown:
    return count_verdicts(SPACE, [Judged(str(size), verdict) for size, verdict in sized])


verdicts = st.sampled_from([OPTIMAL, DETOUR, *map(failed, FailureCategory)])


def test_verdicts_are_counted_per_map_size_and_category():
    breakdown = counted(
        [
            (4, OPTIMAL),
            (3, DETOUR),
            (4, failed(FailureCategory.CONFLICT)),
            (4, failed(FailureCategory.CONFLICT)),
            (4, DETOUR),
        ]
    )
    assert list(breakdown.strata) == ["3", "4"]
    assert (breakdown.strata["3"].n, breakdown.strata["3"].valid, breakdown.strata["3"].optimal) == (1, 1, 0)
    assert (breakdown.strata["4"].n, breakdown.strata["4"].valid, breakdown.strata["4"].optimal) == (4, 2, 1)
    assert breakdown.strata["4"].failures == {
        category: 2 * (category is FailureCategory.CONFLICT) for category in FailureCategory
    }
    assert breakdown.strata["4"].valid_rate.value == 0.5
    assert breakdown.strata["4"].optimal_rate.value == 0.25


@repeatable
@given(st.lists(st.tuples(st.integers(3, 10), verdicts), min_size=1, max_size=200))
def test_counts_add_up_over_sizes_and_categories(sized: list[tuple[int, Verdict]]):
    breakdown = counted(sized)
    overall = breakdown.overall
    assert overall.n == len(sized) == sum(part.n for part in breakdown.strata.values())
    assert overall.valid == sum(verdict.valid for _, verdict in sized)
    assert overall.optimal == sum(verdict.optimal for _, verdict in sized)
    for category in FailureCategory:
        assert overall.failures[category] == sum(verdict.category is category for _, verdict in sized)
    for part in (*breakdown.strata.values(), overall):
        assert part.valid + sum(part.failures.values()) == part.n
    assert counted(sized[::-1]) == breakdown
    assert Breakdown.model_validate_json(breakdown.model_dump_json()) == breakdown


def test_the_mean_share_of_agents_at_their_goals_has_an_interval_and_is_the_same_in_any_order():
    shares = [1 / 3, 2 / 3, 1.0, 0.0, 1 / 5, 3 / 5]
    sized = [
        (3 + index % 2, failed(FailureCategory.CONFLICT).model_copy(update={"arrived": share}))
        for index, share in enumerate(shares * 5)
    ]
    breakdown = counted(sized)
    assert breakdown == counted(sized[::-1])
    assert breakdown.strata["3"].terms["arrived"] == pytest.approx((1 / 3 + 1 + 1 / 5) / 3)
    assert breakdown.strata["4"].terms["arrived"] == pytest.approx((2 / 3 + 0 + 3 / 5) / 3)
    rate = breakdown.overall.term_rate("arrived")
    assert rate is not None
    assert rate.value == pytest.approx(sum(shares) / 6)
    # Wider than the spread of these shares asks for.
    standard_error = float(np.std(shares * 5)) / math.sqrt(30)
    assert rate.low < rate.value - 1.96 * standard_error
    assert rate.high > rate.value + 1.96 * standard_error


def test_counts_alone_say_nothing_of_the_agents_at_their_goals():
    known, unknown = counted([(3, OPTIMAL)]).strata["3"], Counts(n=1, valid=1, optimal=1, failures={})
    assert known.terms["arrived"] == 1
    assert unknown.term_rate("arrived") is None
    assert "arrived" not in Breakdown(strata={"3": known, "4": unknown}).overall.terms


def test_a_label_is_counted_beside_the_instances_without_it():
    waits = frozenset(["wait_required"])
    answers = [
        Judged("4", OPTIMAL, waits),
        Judged("4", failed(FailureCategory.CONFLICT), waits),
        Judged("4", DETOUR),
        Judged("5", DETOUR, waits),
    ]
    breakdown = count_verdicts(SPACE, answers)
    part = breakdown.strata["4"]
    sides = part.split("wait_required") or ()
    assert [(side.valid_percent, side.valid_rate) for side in sides] == [
        (50, wilson(1, 2)),
        (100, wilson(1, 1)),
    ]
    assert breakdown.strata["5"].split("wait_required") is None
    assert breakdown.overall.labels["wait_required"].model_dump() == {"n": 3, "valid": 2}
    with pytest.raises(ValidationError, match="do not fit together"):
        Counts(n=2, valid=2, optimal=0, failures={}, labels={"x": {"n": 1, "valid": 0}})  # type: ignore[dict-item]


def test_measures_are_means_over_valid_answers():
    found = (("4", DETOUR, 2), ("4", OPTIMAL, 0), ("5", DETOUR, 4))
    wrong = [Judged(name, failed(FailureCategory.CONFLICT)) for name in ("4", "6")]
    breakdown = count_verdicts(
        SPACE,
        [*(Judged(name, verdict, measures={"excess_cost": cost}) for name, verdict, cost in found), *wrong],
    )
    assert breakdown.strata["4"].measures == {"excess_cost": 1}
    assert breakdown.strata["6"].measures == {}
    assert breakdown.overall.measures == {"excess_cost": 2}


@pytest.mark.parametrize(
    "counts",
    [
        {"n": 4, "valid": 1, "optimal": 0, "failures": {"conflict": 2}},
        {"n": 2, "valid": 1, "optimal": 2, "failures": {"conflict": 1}},
        {"n": 1, "valid": 2, "optimal": 0, "failures": {"conflict": -1}},
        {"n": -1, "valid": -1, "optimal": -1, "failures": {}},
    ],
)
def test_counts_that_do_not_add_up_are_refused(counts: dict):
    with pytest.raises(ValidationError):
        Counts.model_validate(counts)


def test_a_breakdown_without_any_answer_is_refused():
    with pytest.raises(ValidationError):
        counted([])


@pytest.mark.parametrize(
    ("successes", "total"), [(0, 10), (10, 10), (7, 10), (1, 3), (450, 900), (899, 900), (1, 3_150)]
)
def test_rates_carry_the_wilson_interval(successes: int, total: int):
    rate = wilson(successes, total)
    assert rate.value == successes / total
    assert (rate.low, rate.high) == pytest.approx(
        binomtest(successes, total).proportion_ci(method="wilson"), abs=1e-12
    )
    assert rate.low <= rate.value + 1e-12
    assert rate.value <= rate.high + 1e-12


def test_a_published_wilson_interval_is_reproduced():
    """81 of 263, the worked example of Newcombe (1998)."""
    rate = wilson(81, 263)
    assert (round(rate.low, 4), round(rate.high, 4)) == (0.2553, 0.3662)
    assert str(rate) == "30.8% [25.5%, 36.6%]"


def test_no_answers_say_nothing():
    assert (wilson(0, 0).value, wilson(0, 0).low, wilson(0, 0).high) == (0, 0, 1)
    nothing = paired_difference(np.array([], bool), np.array([], bool))
    assert (nothing.value, nothing.low, nothing.high) == (0, -1, 1)


def test_a_change_of_every_outcome_is_certain():
    gain = paired_difference(np.zeros(50, bool), np.ones(50, bool))
    assert (gain.value, gain.low, gain.high) == (1, 1, 1)
    loss = paired_difference(np.ones(50, np.uint8), np.zeros(50, np.uint8))
    assert (loss.value, loss.low, loss.high) == (-1, -1, -1)


@repeatable
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=300), st.integers(0, 10))
def test_the_interval_holds_the_difference_of_the_means_and_is_deterministic(
    pairs: list[tuple[bool, bool]], seed: int
):
    before, after = np.array(pairs).T
    difference = paired_difference(before, after, seed=seed, resamples=999)
    assert difference.value == pytest.approx(after.mean() - before.mean())
    assert -1 <= difference.low <= difference.value + 1e-12
    assert difference.value - 1e-12 <= difference.high <= 1
    assert paired_difference(before, after, seed=seed, resamples=999) == difference


def test_the_interval_is_that_of_a_bootstrap_over_instances():
    rng = np.random.default_rng(0)
    before, after = rng.random(400) < 0.4, rng.random(400) < 0.5
    difference = paired_difference(before, after)
    change = after.astype(int) - before.astype(int)
    means = rng.choice(change, (9_999, 400)).mean(axis=1)
    assert difference.low == pytest.approx(np.percentile(means, 2.5), abs=0.01)
    assert difference.high == pytest.approx(np.percentile(means, 97.5), abs=0.01)


def test_outcomes_that_are_not_paired_are_refused():
    with pytest.raises(ValueError, match=r"equal shapes, got \(3,\) and \(4,\)"):
        paired_difference(np.zeros(3), np.zeros(4))
