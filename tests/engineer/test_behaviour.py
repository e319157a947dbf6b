import pytest
from contexts import boards, counts, env_config, repeatable
from contexts import breakdown as of_sizes
from engineer.claims import Claims
from hypothesis import given
from hypothesis import strategies as st

from engineer.behaviour import (
    EditSize,
    EvidenceShares,
    ProposalBehaviour,
    SignalGain,
    agreement,
    budgets,
    edit_size,
    evidence_shares,
    preserved_strata,
    proposal_behaviour,
    signal_gain,
    undone,
    worked_strata,
)
from envgen.breakdown import Breakdown, Difference
from envgen.config import EnvConfig

EVEN = env_config({3: (0.25, 0.2, 0.5), 4: (0.25, 0.3, 0.5), 5: (0.25, 0.3, 0.25), 6: (0.25, 0.4, 0.0)})
MOVED = env_config({3: (0.10, 0.2, 0.5), 4: (0.45, 0.3, 0.5), 5: (0.25, 0.31, 0.27), 6: (0.20, 0.2, 0.5)})
ROSE = Difference(value=0.1, low=0.02, high=0.18)
FELL = Difference(value=-0.1, low=-0.18, high=-0.02)
SAME = Difference(value=0.1, low=0.0, high=0.2)
UNCHANGED = {"data_ratio": 0.0, "knobs": {"hole_ratio": 0.0, "wait_ratio": 0.0}}
SPACE = boards(*range(3, 11))


def breakdown(valid: dict[int, int], n: int = 100) -> Breakdown:
    return of_sizes({size: counts(n, count, 0) for size, count in valid.items()})


SEEN = breakdown({3: 100, 4: 50, 5: 20, 6: 0})
"""Signals 4p(1 - p): 0, 1, 0.64 and 0."""


def shares(of: dict[int, float]) -> EnvConfig:
    return env_config({size: (share, 0.3, 0.5) for size, share in of.items()})


def edits(old: EnvConfig, new: EnvConfig) -> tuple[float | None, ...]:
    """Of the shares, the holes and the waits."""
    found = edit_size(SPACE, old, new)
    return found.data_ratio, found.knobs["hole_ratio"], found.knobs["wait_ratio"]


def values(model: EvidenceShares | SignalGain) -> dict[str, float]:
    return model.model_dump()


def test_edit_size_sums_each_knob_over_the_map_sizes():
    assert edits(EVEN, MOVED) == pytest.approx((0.15 + 0.20 + 0.05, 0.01 + 0.20, 0.02 + 0.50))
    assert edit_size(SPACE, EVEN, EVEN).model_dump() == UNCHANGED


def test_holes_and_waits_count_only_where_both_configs_have_data():
    old = env_config({3: (0.5, 0.2, 0.5), 4: (0.5, 0.2, 0.5), 5: (0.0, 0.2, 0.5)})
    new = env_config({3: (0.5, 0.3, 0.25), 5: (0.3, 0.5, 1.0), 6: (0.2, 0.5, 1.0)})
    assert edits(old, new) == pytest.approx((1.0, 0.1, 0.25))
    assert edits(shares({3: 1.0}), shares({4: 1.0})) == (2.0, None, None)


def test_budgets_follow_each_map_size_and_a_size_not_named_has_none():
    assert budgets([shares({5: 0.75, 3: 0.25}), shares({3: 0.5, 4: 0.5})]) == {
        "5": (0.75, 0.0),
        "3": (0.25, 0.5),
        "4": (0.0, 0.5),
    }
    assert list(budgets([shares({3: 0.25, 5: 0.75}), shares({4: 1})])) == ["3", "5", "4"]


def test_data_on_unsolved_solved_and_unseen_sizes_is_counted():
    config = shares({3: 0.4, 4: 0.3, 5: 0.2, 6: 0.1})
    assert values(evidence_shares(config, SEEN)) == pytest.approx(
        {"unsolved": 0.1, "solved": 0.4, "unseen": 0.0}
    )
    assert values(evidence_shares(config, breakdown({3: 50, 4: 50}))) == pytest.approx(
        {"unsolved": 0.0, "solved": 0.0, "unseen": 0.3}
    )
    no_answers = of_sizes({3: counts(0, 0, 0), 4: counts(100, 50, 0)})
    assert values(evidence_shares(shares({3: 0.4, 4: 0.6}), no_answers)) == pytest.approx(
        {"unsolved": 0.0, "solved": 0.0, "unseen": 0.4}
    )


@pytest.mark.parametrize(
    ("valid", "unsolved", "solved"), [(4, 1.0, 0.0), (5, 0.0, 0.0), (95, 0.0, 0.0), (96, 0.0, 1.0)]
)
def test_exactly_five_and_ninety_five_percent_are_neither_unsolved_nor_solved(
    valid: int, unsolved: float, solved: float
):
    assert values(evidence_shares(shares({3: 1.0}), breakdown({3: valid}))) == {
        "unsolved": unsolved,
        "solved": solved,
        "unseen": 0.0,
    }


def test_a_size_is_preserved_if_no_knob_moves_by_more_than_two_hundredths():
    assert preserved_strata(EVEN, EVEN) == ("3", "4", "5", "6")
    assert preserved_strata(EVEN, MOVED) == ("5",)
    old = env_config({3: (0.5, 0.3, 0.5), 4: (0.5, 0.3, 0.5)})
    assert preserved_strata(old, env_config({3: (0.52, 0.32, 0.48), 4: (0.48, 0.279, 0.5)})) == ("3",)


def test_a_size_that_comes_or_goes_is_not_preserved_however_small_its_share():
    assert preserved_strata(shares({3: 0.01, 4: 0.99}), shares({3: 0.0, 4: 0.99, 5: 0.01})) == ("4",)


def test_a_size_worked_if_it_had_data_and_its_valid_rate_rose_beyond_chance():
    config = shares({3: 0.5, 4: 0.25, 5: 0.25, 6: 0.0})
    assert worked_strata(config, {"3": ROSE, "4": SAME, "5": FELL, "6": ROSE, "7": ROSE}) == ("3",)
    assert worked_strata(config, {}) == ()


def test_signal_gain_weighs_the_moves_by_the_signal():
    gain = signal_gain(EVEN, MOVED, SEEN)
    assert gain is not None
    assert gain.value == pytest.approx(-0.15 * 0 + 0.20 * 1 + 0 * 0.64 - 0.05 * 0)
    # Wilson, 100 answers: 100 valid [0.96301, 1], 50 valid [0.40383, 0.59617], 0 valid [0, 0.03699];
    # 4p(1 - p) at their ends:
    edge, middle = 4 * 0.03699 * 0.96301, 4 * 0.40383 * 0.59617
    assert gain.low == pytest.approx(-0.15 * edge + 0.20 * middle - 0.05 * edge, abs=1e-4)
    assert gain.high == pytest.approx(0.20, abs=1e-4)


def test_agreement_is_one_from_the_least_to_the_most_signal_and_minus_one_the_other_way():
    toward = shares({3: 0.05, 4: 0.45, 5: 0.25, 6: 0.25})
    assert agreement(EVEN, toward, SEEN) == pytest.approx(1.0)
    assert agreement(toward, EVEN, SEEN) == pytest.approx(-1.0)
    assert agreement(EVEN, shares({3: 0.45, 4: 0.25, 5: 0.25, 6: 0.05}), SEEN) == pytest.approx(0.0)


def test_agreement_is_the_gain_over_what_moved_and_the_spread_of_the_signal():
    seen = breakdown({3: 90, 4: 50, 5: 20})  # signals 0.36, 1, 0.64
    old, new = shares({3: 0.4, 4: 0.3, 5: 0.3}), shares({3: 0.3, 4: 0.35, 5: 0.35})
    gain = -0.1 * 0.36 + 0.05 * 1 + 0.05 * 0.64
    assert agreement(old, new, seen) == pytest.approx(gain / (0.1 * (1 - 0.36)))


def test_agreement_is_undefined_where_nothing_moves_or_nothing_tells_sizes_apart():
    assert agreement(EVEN, EVEN, SEEN) is None
    assert agreement(EVEN, shares({3: 0.259, 4: 0.241, 5: 0.25, 6: 0.25}), SEEN) is None
    for rate in (0, 37, 100):
        assert agreement(EVEN, MOVED, breakdown(dict.fromkeys((3, 4, 5, 6), rate))) is None
    assert agreement(EVEN, MOVED, breakdown({3: 0, 4: 100, 5: 0, 6: 100})) is None


def test_a_move_to_a_size_without_evidence_is_not_judged():
    assert signal_gain(shares({3: 1.0}), shares({3: 0.5, 7: 0.5}), SEEN) is None
    assert agreement(shares({3: 1.0}), shares({3: 0.5, 7: 0.5}), SEEN) is None
    assert signal_gain(shares({3: 0.5, 7: 0.5}), shares({3: 0.5, 7: 0.5}), SEEN) == SignalGain(
        value=0, low=0, high=0
    )


def test_undone_is_one_for_the_way_back_zero_for_standing_still_and_minus_one_for_more_of_the_same():
    first, second = shares({3: 0.5, 4: 0.5}), shares({3: 0.7, 4: 0.3})
    assert undone(SPACE, first, second, first) == pytest.approx(1.0)
    assert undone(SPACE, first, second, shares({3: 0.6, 4: 0.4})) == pytest.approx(0.5)
    assert undone(SPACE, first, second, shares({3: 0.2, 4: 0.8})) == 1.0
    assert str(undone(SPACE, first, second, second)) == "0.0"
    assert undone(SPACE, first, second, shares({3: 0.8, 4: 0.2})) == pytest.approx(-0.5)
    assert undone(SPACE, first, second, shares({3: 1.0, 4: 0.0})) == -1.0


def test_undone_weighs_the_knobs_by_their_range():
    first = env_config({3: (1.0, 0.2, 0.5)})
    second = env_config({3: (1.0, 0.3, 0.7)})
    assert undone(SPACE, first, second, env_config({3: (1.0, 0.2, 0.7)})) == pytest.approx(
        0.2 * 0.2 / (0.2 * 0.2 + 0.2 * 0.2)
    )


def test_there_is_nothing_to_undo_without_an_edit():
    assert undone(SPACE, EVEN, EVEN, MOVED) is None
    assert undone(SPACE, shares({3: 0.5, 4: 0.5}), shares({3: 0.5001, 4: 0.4999}), shares({3: 1.0})) is None


def test_self_correction_is_measured_only_after_a_drop_that_an_edit_preceded():
    def measured(earlier: EnvConfig | None, change: Difference) -> ProposalBehaviour:
        return proposal_behaviour(
            SPACE, earlier, MOVED, EVEN, SEEN, change, {"4": ROSE, "5": ROSE, "6": FELL}, ""
        )

    assert measured(EVEN, FELL).undone == pytest.approx(1.0)
    assert measured(EVEN, FELL).dropped
    for earlier, change in ((None, FELL), (EVEN, SAME), (EVEN, ROSE), (MOVED, FELL)):
        assert measured(earlier, change).undone is None
    assert measured(EVEN, SAME).dropped is False


def test_the_first_proposal_has_every_measure_but_self_correction():
    found = proposal_behaviour(
        SPACE,
        None,
        EVEN,
        MOVED,
        SEEN,
        SAME,
        {"4": ROSE, "5": ROSE, "6": FELL},
        "3x3 100% valid, less data; more for 6x6",
    )
    assert (found.preserved, found.worked, found.worked_preserved) == (("5",), ("4", "5"), ("5",))
    assert found.shares == EvidenceShares(unsolved=0.25, solved=0.25, unseen=0)
    assert values(found.proposed_shares) == pytest.approx({"unsolved": 0.2, "solved": 0.1, "unseen": 0})
    assert found.agreement == pytest.approx(1.0)
    assert found.undone is None
    assert found.claims == Claims(checked=3, false=("'6x6 more data': 0.25 → 0.20",))
    assert ProposalBehaviour.model_validate_json(found.model_dump_json()) == found


@st.composite
def configs(draw: st.DrawFn) -> EnvConfig:
    sizes = draw(st.lists(st.integers(3, 10), min_size=1, unique=True))
    weights = [draw(st.integers(0, 20)) for _ in sizes[1:]] + [draw(st.integers(1, 20))]
    knobs = [(draw(st.floats(0, 0.5)), draw(st.floats(0, 1))) for _ in sizes]
    parts = zip(sizes, weights, knobs, strict=True)
    return env_config({size: (weight / sum(weights), *values) for size, weight, values in parts})


answered = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: counts(max(pair), min(pair), 0))
evidence = st.dictionaries(st.integers(3, 10), answered, min_size=1).map(of_sizes)


@repeatable
@given(configs(), configs(), configs(), evidence, st.sampled_from([ROSE, FELL, SAME]))
def test_every_measure_stays_in_its_range(
    earlier: EnvConfig, config: EnvConfig, proposed: EnvConfig, seen: Breakdown, change: Difference
):
    found = proposal_behaviour(
        SPACE, earlier, config, proposed, seen, change, dict.fromkeys(seen.strata, change), ""
    )  # the model refuses values out of range
    sizes = len(config.strata)
    assert (found.edit.knobs["hole_ratio"] or 0) <= 0.5 * sizes
    assert (found.edit.knobs["wait_ratio"] or 0) <= sizes
    for part in (found.shares, found.proposed_shares):
        assert all(0 <= share <= 1 for share in values(part).values())
        assert sum(values(part).values()) <= 1 + 1e-9
    if found.signal_gain:
        assert (
            -1 - 1e-9
            <= found.signal_gain.low
            <= found.signal_gain.value + 1e-9
            <= found.signal_gain.high + 2e-9
            <= 1 + 3e-9
        )
    assert set(found.worked_preserved) == set(found.worked) & set(found.preserved)
    assert all(
        abs(sum(column) - 1) < 1e-9
        for column in zip(*budgets([earlier, config, proposed]).values(), strict=True)
    )


@repeatable
@given(configs(), evidence)
def test_a_config_that_is_kept_moves_nothing(config: EnvConfig, seen: Breakdown):
    found = proposal_behaviour(SPACE, config, config, config, seen, FELL, {}, "")
    assert found.edit == EditSize.model_validate(UNCHANGED)
    assert found.preserved == tuple(name for name, part in config.strata.items() if part.data_ratio > 0)
    assert found.signal_gain == SignalGain(value=0, low=0, high=0)
    assert (found.agreement, found.undone) == (None, None)
