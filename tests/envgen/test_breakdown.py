"""Counts of answers per stratum, and the intervals of rates and of their differences."""

import math

import numpy as np
import pytest
from board_makers import repeatable
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from envgen.breakdown import Breakdown, Counts, Judged, count_verdicts, format_alarms
from envgen.estimates import rate, wilson
from envgen.mapf.space import Options, space_of
from envgen.mapf.verifier import FailureCategory, Verdict

OPTIMAL = Verdict(valid=True, optimal=True, sum_of_costs=3, makespan=2)
DETOUR = Verdict(valid=True, sum_of_costs=5, makespan=3)
CONFLICT = Verdict(valid=False, category=FailureCategory.CONFLICT)
SPACE = space_of(Options())
verdicts = st.sampled_from(
    [OPTIMAL, DETOUR, *(Verdict(valid=False, category=category) for category in FailureCategory)]
)


def counted(sized: list[tuple[int, Verdict]]) -> Breakdown:
    return count_verdicts(SPACE, [Judged(str(size), verdict) for size, verdict in sized])


@repeatable
@given(st.lists(st.tuples(st.integers(3, 10), verdicts), min_size=1, max_size=200))
def test_verdicts_are_counted_per_map_size_and_category_and_add_up(sized: list[tuple[int, Verdict]]):
    breakdown, sizes = counted(sized), sorted({size for size, _ in sized})
    assert [*breakdown.strata] == [*map(str, sizes)]
    for size, part in zip([*sizes, None], [*breakdown.strata.values(), breakdown.overall], strict=True):
        chosen = [verdict for other, verdict in sized if size in (other, None)]
        valid, optimal = sum(verdict.valid for verdict in chosen), sum(verdict.optimal for verdict in chosen)
        assert (part.n, part.valid, part.optimal) == (len(chosen), valid, optimal)
        categories = [verdict.category for verdict in chosen]
        assert part.failures == {category: categories.count(category) for category in FailureCategory}
        assert (part.valid_rate.value, part.optimal_rate.value) == (valid / part.n, optimal / part.n)
    assert counted(sized[::-1]) == breakdown
    assert Breakdown.model_validate_json(breakdown.model_dump_json()) == breakdown


def test_the_mean_share_of_agents_at_their_goals_has_an_interval_and_is_the_same_in_any_order():
    shares = [1 / 3, 2 / 3, 1.0, 0.0, 1 / 5, 3 / 5]
    judged = [CONFLICT.model_copy(update={"arrived": share}) for share in shares * 5]
    sized = [(3 + index % 2, verdict) for index, verdict in enumerate(judged)]
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
    judged, alone = counted([(3, OPTIMAL)]).strata["3"], Counts(n=1, valid=1, optimal=1, failures={})
    assert judged.terms["arrived"] == 1
    assert alone.term_rate("arrived") is None
    assert "arrived" not in Breakdown(strata={"3": judged, "4": alone}).overall.terms


def test_a_label_is_counted_beside_the_instances_without_it():
    waits = frozenset(["wait_required"])
    answers = [Judged("4", OPTIMAL, waits), Judged("4", CONFLICT, waits), Judged("4", DETOUR)]
    breakdown = count_verdicts(SPACE, [*answers, Judged("5", DETOUR, waits)])
    sides = breakdown.strata["4"].split("wait_required") or ()
    rates = [(side.valid_percent, side.valid_rate) for side in sides]
    assert rates == [(50, wilson(1, 2)), (100, wilson(1, 1))]
    assert breakdown.strata["5"].split("wait_required") is None
    assert breakdown.overall.labels["wait_required"].model_dump() == {"n": 3, "valid": 2}


@pytest.mark.parametrize(
    ("valid", "unreadable", "unscored", "wrong", "alarm"),
    [
        (0, 8, 0, 0, 8),
        (0, 3, 2, 3, 5),
        (0, 0, 8, 0, 8),
        (0, 4, 0, 4, None),  # half of the answers is not most of them
        (0, 0, 0, 8, None),
        (1, 7, 0, 0, 7),  # a lucky answer is no skill
        (0, 0, 0, 0, None),
    ],
)
def test_a_stratum_of_unreadable_or_unscored_answers_raises_the_format_alarm(
    valid: int, unreadable: int, unscored: int, wrong: int, alarm: int | None
):
    space = SPACE.model_copy(update={"categories": ("no_answer", "wrong", "broken"), "fault": "broken"})
    failures = {"no_answer": unreadable, "wrong": wrong, "broken": unscored}
    part = Counts(n=valid + sum(failures.values()), valid=valid, optimal=0, failures=failures)
    words = "4x4: format, not skill: {} of 8 answers could not be read or scored, {}"
    rest = f"{valid} valid" if valid else "no answer is valid"
    expected = {} if alarm is None else {"4": words.format(alarm, rest)}
    assert format_alarms(space, Breakdown(strata={"4": part})) == expected


def test_measures_are_means_over_valid_answers():
    costs = (("4", DETOUR, 2), ("4", OPTIMAL, 0), ("5", DETOUR, 4))
    valid = [Judged(name, verdict, measures={"excess_cost": cost}) for name, verdict, cost in costs]
    breakdown = count_verdicts(SPACE, [*valid, Judged("4", CONFLICT), Judged("6", CONFLICT)])
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
        {"n": 2, "valid": 2, "optimal": 0, "failures": {}, "labels": {"x": {"n": 1, "valid": 0}}},
    ],
)
def test_counts_that_do_not_fit_together_are_refused(counts: dict):
    with pytest.raises(ValidationError):
        Counts.model_validate(counts)
    with pytest.raises(ValidationError):
        counted([])


def test_several_answers_to_an_instance_count_as_its_mean():
    """avg@k and pass@k of a small matrix by hand, and the intervals of `rate` on the means."""
    rows = {"3": ["111", "100", "000", "110"], "4": ["000", "001"], "5": ["011", "111", "010"]}
    answers = [
        Judged(size, OPTIMAL if flag == "1" else CONFLICT, truncated=flag == "0")
        for size, instances in rows.items()
        for flags in instances
        for flag in flags
    ]
    breakdown = count_verdicts(SPACE, answers, samples=3)
    overall, strata = breakdown.overall, [size for size, instances in rows.items() for _ in instances]
    means = np.array([flags.count("1") / 3 for instances in rows.values() for flags in instances])
    assert (overall.n, overall.instances, overall.valid, overall.truncated) == (27, 9, 13, 14)
    assert (overall.solved, overall.pass_rate) == (7, wilson([3, 1, 3], [4, 2, 3]))
    expected = rate(means, strata)
    for estimate in (overall.valid_rate, overall.optimal_rate):
        assert estimate.value == pytest.approx(13 / 27)
        assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high))
    easy = breakdown.strata["3"]
    assert easy.valid_rate.low == pytest.approx(rate(means[:4]).low) == pytest.approx(wilson(2, 4).low)
    assert easy.share(easy.n - easy.valid).high == pytest.approx(wilson(2, 4).high)
    assert Breakdown.model_validate_json(breakdown.model_dump_json()) == breakdown


def test_counts_of_one_answer_to_each_instance_are_stored_without_fields_of_several():
    stored = counted([(4, OPTIMAL), (4, CONFLICT)]).model_dump_json()
    assert not [word for word in ("samples", "solved", "spread") if word in stored]
