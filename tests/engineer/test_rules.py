"""The engineers that are rules, against numbers computed by hand."""

import math

import numpy as np
import pytest
from contexts import assert_legal, boards, breakdown, counts, design_context, designed, repeatable, updated
from hypothesis import given
from hypothesis import strategies as st
from support.boards import boards_config
from support.designs import random_context

from engineer.context import DesignContext
from engineer.contract import Proposal
from engineer.engineers.guards import Rule, divided
from engineer.engineers.registry import resolve
from engineer.engineers.rules import Frontier, softmax_shares
from engineer.spec import EngineerSpec
from envgen.breakdown import Breakdown, Counts
from envgen.config import EnvConfig
from envgen.errors import ConfigError
from envgen.space import Space

GUARDED = ("frontier", "learnability", "gaussian", "bandit", "window", "levels")
RULES = (*GUARDED, "random")
FOUR = boards(3, 4, 5, 6)
UNREADABLE = FOUR.categories[0]


def proposal_of(engineer: str, context: DesignContext | None = None, **options: object) -> Proposal:
    return designed(EngineerSpec(name=engineer, options=options), context)


def shares_of(config: EnvConfig) -> dict[str, float]:
    return {name: part.data_ratio for name, part in config.strata.items()}


def four(valid: dict[int, int], unreadable: int | None = None, **fields: object) -> DesignContext:
    """The context after stage 0 on four sizes with equal shares and valid answers of 40 by size; of one size
    most failures are unreadable."""
    config = boards_config(dict.fromkeys((3, 4, 5, 6), (0.25, 0.3, 0.5)))
    seen = {size: counts(40, right, right) for size, right in valid.items()}
    if unreadable:
        failures = dict.fromkeys(FOUR.categories, 0) | {UNREADABLE: 30, "conflict": 10}
        seen[unreadable] = seen[unreadable].model_copy(update={"failures": failures})
    context = design_context(0).model_copy(update={"space": FOUR, **fields})
    return updated(context, config=config, breakdown=breakdown(seen))


def test_rates_are_smoothed_and_a_stratum_without_evidence_takes_its_neighbours():
    rule = Rule(reversion=10)
    assert list(rule.valid_rates(four({3: 40, 4: 30, 5: 20, 6: 0})).values()) == [0.9, 0.7, 0.5, 0.1]
    assert list(rule.valid_rates(four({3: 40, 5: 20})).values()) == pytest.approx([0.9, 0.7, 0.5, 0.5])
    alarmed = four({3: 40, 4: 0, 5: 20, 6: 10}, unreadable=4)
    assert rule.valid_rates(alarmed) == pytest.approx({"3": 0.9, "5": 0.5, "6": 0.3})
    unseen = four({4: 0, 5: 20}, unreadable=4)
    assert rule.valid_rates(unseen) == {"3": 0.5, "5": 0.5, "6": 0.5}
    silent = rule.model_copy(update={"alarm": False})
    assert list(silent.valid_rates(alarmed).values()) == pytest.approx([0.9, 0.1, 0.5, 0.3])
    assert set(rule.valid_rates(four({7: 40})).values()) == {0.5}


def test_a_floor_is_paid_by_the_others_in_proportion():
    assert divided({"a": 6, "b": 3, "c": 1}, 1, 0) == {"a": 0.6, "b": 0.3, "c": 0.1}
    assert divided({"a": 6, "b": 3, "c": 1}, 1, 0.25) == {"a": 0.5, "b": 0.25, "c": 0.25}
    assert divided({"a": 0, "b": 0}, 0.5, 0.1) == {"a": 0.25, "b": 0.25}
    assert divided({"a": 1, "b": 0, "c": 0}, 1, 1 / 3) == pytest.approx(dict.fromkeys("abc", 1 / 3))


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_has_a_floor_that_must_fit(rule: str):
    assert resolve(EngineerSpec(name=rule, options={"floor": 0.05}), FOUR, 4).options["floor"] == 0.05
    assert resolve(EngineerSpec(name=rule), FOUR, 4).options["floor"] is None
    with pytest.raises(ConfigError, match=r"floor: 0\.3 is too large for 4 strata; use 0\.25 or less"):
        resolve(EngineerSpec(name=rule, options={"floor": 0.3}), FOUR, 4)


def test_the_default_floor_is_5_percent_for_all_strata_together():
    context = four({3: 20, 4: 20, 5: 0, 6: 0})
    expected = {"3": 0.4875, "4": 0.4875, "5": 0.0125, "6": 0.0125}
    assert shares_of(proposal_of("frontier", context).config) == pytest.approx(expected)
    unguarded = shares_of(proposal_of("frontier", context, floor=0, reversion=0).config)
    assert unguarded == {"3": 0.5, "4": 0.5, "5": 0, "6": 0}


@pytest.mark.parametrize("rule", GUARDED)
def test_a_stratum_with_the_format_alarm_keeps_share_and_knobs(rule: str):
    """Also after three stages in which no answer of size 5 could be read."""
    context = four({3: 30, 4: 20, 5: 0, 6: 4}, unreadable=5)
    for stage in range(3):
        advantage = {"3": 0.8, "4": 0.9, "5": 0.0, "6": 0.4}
        proposal = proposal_of(rule, updated(context, stage=stage, advantage=advantage))
        context = updated(context, config=proposal.config).model_copy(update={"state": proposal.state})
        assert proposal.config.strata["5"] == four({3: 1}).current.config.strata["5"]
        assert proposal.rationale.endswith(" Format, not skill, so that the share is kept: 5x5.")


@pytest.mark.parametrize(
    ("shares", "rates", "expected"),
    [
        # Half of the way to the variances 0.25, 0.16 and 0.09: targets 0.5, 0.32 and 0.18.
        ([0.2, 0.3, 0.5], [0.5, 0.8, 0.1], [0.35, 0.31, 0.34]),
        # The second and third have 0.4 and 0.6 of their old budget and equal variances; the solved first is
        # rehearsed, which leaves 0.95, and the last never succeeds.
        ([0.4, 0.2, 0.3, 0.1], [0.99, 0.5, 0.5, 0.01], [0.05, 0.95 * 0.45, 0.95 * 0.55, 0]),
        # One that was cut comes back when it is within reach.
        ([1, 0], [0.5, 0.5], [0.75, 0.25]),
        ([0, 1], [0.5, 0], [1, 0]),
        # Without any signal there is nothing to say.
        ([0.5, 0.5], [0, 0], None),
        ([0.5, 0.5], [1, 1], None),
        ([0.5, 0.5], [1, 0], None),
    ],
)
def test_the_frontier_moves_shares_towards_the_variance_of_the_reward(
    shares: list[float], rates: list[float], expected: list[float] | None
):
    old, valid = (dict(zip("3456", values, strict=False)) for values in (shares, rates))
    moved = Frontier().shares(old, valid)
    assert (moved and list(moved.values())) == (expected and pytest.approx(expected))


def test_many_solved_sizes_leave_half_of_the_budget_to_the_others():
    solved = {str(number): 1.0 for number in range(22)}
    rates = {**solved, "hard": 0.5}
    moved = Frontier().shares(dict.fromkeys(rates, 1 / 23), rates)
    assert moved is not None
    assert moved["hard"] == pytest.approx(0.5)
    assert sum(moved.values()) == pytest.approx(1)


def test_the_frontier_engineer_moves_shares_and_leaves_the_other_knobs():
    proposal = proposal_of("frontier")  # 3x3 is solved (40 of 40), 5x5 is at 50 %
    assert proposal.config == boards_config({3: (0.05, 0.35, 0.75), 5: (0.95, 0.2, 0.1)})
    assert proposal.rationale == "Data to the map sizes nearest 50 % valid: 3x3 5 %, 5x5 95 %."
    assert (proposal.changes, proposal.fallback, proposal.state) == ((), None, {})


def test_a_size_that_was_not_evaluated_is_taken_for_its_neighbour():
    context = updated(design_context(), breakdown=breakdown({5: counts(40, 8, 4)}))
    proposal = proposal_of("frontier", context)
    assert shares_of(proposal.config) == {"3": 0.6, "5": 0.4}  # half of the way from 0.7 and 0.3 to equal


def test_one_right_answer_of_few_does_not_take_the_data_of_the_frontier():
    few = breakdown({size: counts(24, int(size == 6), 0) for size in (3, 4, 5, 6)})
    proposal = proposal_of("frontier", updated(four({3: 1}), breakdown=few))
    expected = {"3": 0.236, "4": 0.236, "5": 0.236, "6": 0.292}
    assert shares_of(proposal.config) == pytest.approx(expected, abs=1e-3)


def test_without_a_size_within_reach_shares_stay_above_the_floor():
    seen = breakdown({3: counts(40, 40, 40), 5: counts(40, 0, 0)})
    config = boards_config({3: (1, 0.3, 0.5), 5: (0, 0.3, 0.5)})
    proposal = proposal_of("frontier", updated(design_context(), breakdown=seen, config=config))
    assert shares_of(proposal.config) == {"3": 0.975, "5": 0.025}
    assert proposal.rationale == "No map size is within reach and unsolved; shares stay: 3x3 98 %, 5x5 2 %."


def test_data_go_where_a_group_holds_right_and_wrong_answers():
    # Groups of 2: 1 - p^2 - (1 - p)^2 = 2 p (1 - p) is 0.48, 0.5, 0 and 0.42.
    context = four({3: 16, 4: 20, 5: 40, 6: 28}, training={"group_size": 2})
    shares = shares_of(proposal_of("learnability", context, floor=0, reversion=0).config)
    assert shares == pytest.approx({"3": 48 / 140, "4": 50 / 140, "5": 0, "6": 42 / 140}, abs=1e-4)
    # Groups of 8, the default, hold both nearly always at 10 % as well: 1 - 0.1^8 - 0.9^8 = 0.57.
    shares = shares_of(proposal_of("learnability", four({3: 20, 4: 20, 5: 20, 6: 4}), reversion=0).config)
    assert shares["6"] / shares["3"] == pytest.approx((1 - 0.9**8) / (1 - 2 * 0.5**8), abs=1e-3)


def test_the_target_falls_on_a_line_from_the_first_to_the_last_designed_stage():
    context = four({3: 20})
    targets = []
    for stage in range(5):
        later = updated(context, stage=stage).model_copy(update={"stages": 5})
        targets.append(proposal_of("gaussian", later, start=0.9, end=0.3).rationale.split()[6])
    assert targets == ["90", "70", "50", "30", "30"]
    assert "nearest 90 % valid" in proposal_of("gaussian", context, start=0.9).rationale


def test_shares_follow_a_normal_density_over_the_valid_rate():
    context = four({3: 40, 4: 24, 5: 20, 6: 0})
    options = {"start": 0.6, "width": 0.1, "reversion": 0, "floor": 0}
    whole = 1 + math.exp(-0.5) + math.exp(-8)  # 4 and 0, 1 and 6 widths away
    assert shares_of(proposal_of("gaussian", context, **options).config) == pytest.approx(
        {"3": math.exp(-8) / whole, "4": 1 / whole, "5": math.exp(-0.5) / whole, "6": 0}, abs=1e-4
    )


def test_shares_are_the_softmax_of_the_values():
    assert softmax_shares({"3": 0.0, "5": math.log(3)}, 1.0) == pytest.approx({"3": 0.25, "5": 0.75})
    assert softmax_shares({"3": 0.0, "5": math.log(3)}, 0.5) == pytest.approx({"3": 0.1, "5": 0.9})
    assert softmax_shares({"3": 0.7, "5": 0.7}, 0.01) == {"3": 0.5, "5": 0.5}


def advantages(stage: int, state: dict, advantage: dict[str, float]) -> DesignContext:
    return updated(design_context(stage), advantage=advantage).model_copy(update={"state": state})


def test_the_bandit_remembers_its_values_from_stage_to_stage():
    first = proposal_of("bandit", advantages(0, {}, {"3": 0.2, "5": 0.8}))
    assert first.state == {"values": {"3": 0.1, "5": 0.4}}
    # softmax of 0.1 / 0.5 and 0.4 / 0.5: 1 / (1 + e^0.6) and the rest.
    assert shares_of(first.config) == pytest.approx({"3": 0.3543, "5": 0.6457})
    stored = advantages(1, first.state, {"5": 0.0}).model_dump_json()
    second = proposal_of("bandit", DesignContext.model_validate_json(stored), temperature=0.1)
    # 3x3 was not trained: 39 / 42 valid let expect 2 sqrt(39 * 3) / 42 = 0.5151.
    assert second.state["values"] == pytest.approx({"3": 0.3075, "5": 0.2}, abs=1e-4)
    assert shares_of(second.config) == pytest.approx({"3": 0.7456, "5": 0.2544})  # 1 / (1 + e^-1.075)


def test_a_damaged_state_costs_the_redesign_and_not_the_run():
    proposal = proposal_of("bandit", advantages(2, {"values": {"3": "much"}}, {}))
    assert proposal.config == design_context().current.config
    why = "engineer 'bandit' failed, the previous config is kept: ValueError: could not convert string to"
    assert proposal.fallback == f"{why} float: 'much'"


@pytest.mark.parametrize(
    ("valid", "unreadable", "before", "after"),
    [
        ({3: 39, 4: 20, 5: 40, 6: 40}, None, (0, 0), (0, 1)),
        ({3: 36, 4: 40, 5: 40, 6: 40}, None, (0, 0), (0, 0)),  # 37 of 42
        ({3: 0, 4: 40, 5: 40, 6: 20}, None, (0, 1), (2, 3)),
        ({3: 0, 4: 0, 5: 0, 6: 0}, None, (1, 2), (1, 2)),  # never back
        ({3: 40, 4: 0, 5: 20, 6: 40}, 4, (0, 1), (1, 2)),  # past the format alarm
        ({3: 20, 4: 0, 5: 40, 6: 40}, 4, (0, 1), (0, 1)),
    ],
)
def test_the_window_climbs_while_its_hardest_stratum_is_mastered(
    valid: dict[int, int], unreadable: int | None, before: tuple[int, int], after: tuple[int, int]
):
    context = four(valid, unreadable, state=dict(zip(("low", "high"), before, strict=True)))
    assert tuple(proposal_of("window", context, width=2).state.values()) == after


def test_strata_of_the_window_have_equal_shares():
    proposal = proposal_of("window", four({3: 39, 4: 20, 5: 0, 6: 0}))
    assert shares_of(proposal.config) == {"3": 0.4875, "4": 0.4875, "5": 0.0125, "6": 0.0125}


LADDER = boards(3, 4, 5, low=0.2, high=0.4)


def level(sizes: dict, rates: dict[int, float], **options: object) -> EnvConfig:
    """The config after valid rates by size, before which it was `sizes`."""
    seen = breakdown({size: counts(100, round(100 * rate), 0) for size, rate in rates.items()})
    context = design_context(0).model_copy(update={"space": LADDER})
    context = updated(context, config=boards_config(sizes), breakdown=seen)
    return proposal_of("levels", context, floor=0, reversion=0, **options).config


def test_a_size_climbs_above_70_percent_and_steps_down_below_30():
    sizes = {3: (0.4, 0.2, 0.25), 4: (0.3, 0.3, 0.5), 5: (0.3, 0.4, 0.5)}
    moved = {3: (0.4, 0.3, 0.5), 4: (0.3, 0.3, 0.5), 5: (0.3, 0.3, 0.25)}
    assert level(sizes, {3: 0.71, 4: 0.7, 5: 0.29}) == boards_config(moved)
    assert level(sizes, {3: 0.3}) == boards_config(sizes)


def test_the_last_level_is_reached_knob_by_knob():
    sizes = {3: (0.4, 0.35, 1.0), 4: (0.3, 0.4, 0.9), 5: (0.3, 0.2, 0.1)}
    moved = {3: (0.4, 0.4, 1.0), 4: (0.3, 0.4, 1.0), 5: (0.3, 0.2, 0.0)}
    assert level(sizes, {3: 0.9, 4: 0.9, 5: 0.1}) == boards_config(moved)


def test_a_size_at_its_last_level_gives_to_its_neighbour():
    # 3x3 gives 0.2 up and 5x5 gives 0.15 down, both to 4x4.
    sizes = {3: (0.4, 0.4, 1.0), 4: (0.3, 0.3, 0.5), 5: (0.3, 0.2, 0.0)}
    half, whole = level(sizes, {3: 0.9, 4: 0.5, 5: 0.1}), level(sizes, {3: 0.9, 4: 0.5, 5: 0.5}, move=1)
    assert shares_of(half) == pytest.approx({"3": 0.2, "4": 0.65, "5": 0.15})
    assert shares_of(whole) == pytest.approx({"3": 0, "4": 0.7, "5": 0.3})
    ends = {3: (0.5, 0.2, 0.0), 4: (0.2, 0.3, 0.5), 5: (0.3, 0.4, 1.0)}
    assert level(ends, {3: 0.0, 4: 0.5, 5: 1.0}) == boards_config(ends), "no smaller and no larger size"


def test_the_levels_engineer_says_what_became_harder():
    proposal = proposal_of("levels")  # 3x3 at 100 %, 5x5 at 50 %
    assert proposal.config == boards_config({3: (0.7, 0.4, 1.0), 5: (0.3, 0.2, 0.1)})
    assert proposal.rationale == "Harder: 3x3; easier: none."


def any_context(rng: np.random.Generator, space: Space) -> DesignContext:
    """A context in which some strata were not evaluated, trained or read, and some have no share."""
    context = random_context(rng, space)
    seen = dict(context.current.breakdown.strata)
    for name in space.names:
        if rng.random() < 0.3:
            failures = dict.fromkeys(space.categories, 0) | {space.categories[0]: 30}
            seen[name] = Counts(n=30, valid=0, optimal=0, failures=failures)
        if rng.random() < 0.3 and len(seen) > 1:
            del seen[name]
    trained = {name: float(rng.uniform()) for name in space.names if rng.random() < 0.7}
    shares = divided({name: float(rng.random() < 0.6) for name in space.names}, 1, 0)
    parts = context.current.config.strata.items()
    config = {name: part.model_copy(update={"data_ratio": shares[name]}) for name, part in parts}
    seen = Breakdown(strata=seen)
    return updated(context, breakdown=seen, advantage=trained, config=space.config(config))


@repeatable
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(3,), (3, 10), (3, 4, 5, 6), tuple(range(3, 11))]),
    st.sampled_from(RULES),
    st.sampled_from([None, 0, 0.5, 1]),
)
def test_a_rule_is_legal_above_its_floor_and_repeats_itself(seed: int, sizes: tuple, rule: str, part):
    context = any_context(np.random.default_rng(seed), boards(*sizes, low=0.1, high=0.3))
    floor = None if part is None else part / len(sizes)
    proposal = proposal_of(rule, context, floor=floor)
    assert proposal.fallback is None
    assert_legal(proposal.config, context.space)
    least = 0.05 / len(sizes) if floor is None else floor
    assert min(shares_of(proposal.config).values()) >= least - 0.5e-4 * len(sizes)
    assert proposal == proposal_of(rule, context, floor=floor)
