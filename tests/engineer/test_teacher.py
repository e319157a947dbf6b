import re

import numpy as np
import pytest
from contexts import assert_legal, env_config, repeatable, size_breakdown
from hypothesis import given
from hypothesis import strategies as st

from engineer.answer import answer_text, parse_answer, project
from engineer.context import ConfigSpace, DesignContext, StageRecord
from engineer.lessons import lessons, random_context
from engineer.teacher import DATA_UNITS, teach
from envgen.breakdown import Breakdown

SPACE = ConfigSpace(map_sizes=(3, 4, 5, 6), min_hole_ratio=0.2, max_hole_ratio=0.4)
spaces = st.sampled_from([SPACE, ConfigSpace(map_sizes=(4,)), ConfigSpace(map_sizes=(3, 10), max_hole_ratio=0.3), ConfigSpace(map_sizes=tuple(range(3, 11)))])
seeds = st.integers(0, 2**32 - 1)


def made_up(seed: int, space: ConfigSpace) -> DesignContext:
    return random_context(np.random.default_rng(seed), space)


def taught_from(rates: dict[int, int], shares: dict[int, float] | None = None, hole_ratio: float = 0.3, wait_ratio: float = 0.5):
    """The rule's answer to valid rates in percent, given shares (even ones if left out)."""
    space = ConfigSpace(map_sizes=tuple(rates), min_hole_ratio=0.2, max_hole_ratio=0.4)
    config = env_config({size: (shares[size] if shares else 1 / len(rates), hole_ratio, wait_ratio) for size in rates})
    breakdown = Breakdown(sizes={size: size_breakdown(100, valid, valid // 2) for size, valid in rates.items()})
    record = StageRecord(stage=0, config=config, breakdown=breakdown)
    return teach(DesignContext(space=space, current=record, stages=3, instances=100, epochs=1))


@repeatable
@given(seeds, spaces)
def test_the_rule_is_always_legal_in_the_space(seed: int, space: ConfigSpace):
    config, rationale = teach(made_up(seed, space))
    assert_legal(config, space)
    assert rationale


@repeatable
@given(seeds, spaces)
def test_shares_are_whole_units_that_sum_to_one(seed: int, space: ConfigSpace):
    config, _ = teach(made_up(seed, space))
    units = [c.data_ratio * DATA_UNITS for c in config.sizes.values()]
    assert all(abs(unit - round(unit)) < 1e-9 for unit in units)
    assert sum(round(unit) for unit in units) == DATA_UNITS


@repeatable
@given(seeds)
def test_a_stage_changes_little(seed: int):
    context = made_up(seed, SPACE)
    config, _ = teach(context)
    for size, old in context.current.config.sizes.items():
        new = config.sizes[size]
        assert abs(new.data_ratio - old.data_ratio) <= 0.3
        assert 0 <= new.hole_ratio - old.hole_ratio + 1e-9 <= 0.1 + 1e-6
        assert abs(new.wait_ratio - min(max(old.wait_ratio, 0.25), 0.75)) <= 0.375 + 1e-9


@repeatable
@given(st.permutations([50, 3, 97, 5]))
def test_data_moves_to_the_size_that_is_solved_half_of_the_time(rates: list[int]):
    valid = dict(zip(SPACE.map_sizes, rates, strict=True))
    config, rationale = taught_from(valid)
    half = next(size for size, rate in valid.items() if rate == 50)
    assert config.sizes[half].data_ratio > 0.25
    assert all(config.sizes[size].data_ratio < 0.25 for size in valid if size != half)
    assert rationale.startswith(f"More data for {half}x{half}, which is solved about half of the time; less for ")


@repeatable
@given(st.lists(st.integers(0, 100), min_size=4, max_size=4))
def test_from_even_shares_a_size_nearer_to_half_never_ends_with_less(rates: list[int]):
    valid = dict(zip(SPACE.map_sizes, rates, strict=True))
    config, _ = taught_from(valid)
    for a in valid:
        for b in valid:
            if abs(valid[a] - 50) < abs(valid[b] - 50):
                assert config.sizes[a].data_ratio >= config.sizes[b].data_ratio - 1 / DATA_UNITS - 1e-9


def test_rates_that_do_not_differ_keep_even_shares():
    config, rationale = taught_from(dict.fromkeys(SPACE.map_sizes, 40))
    assert [c.data_ratio for c in config.sizes.values()] == [0.25] * 4
    assert rationale == "Keep the shares, they fit the failures."


def test_shares_that_fit_stay_where_they_are():
    shares = {3: 0.45, 4: 0.55}
    config, _ = taught_from({3: 40, 4: 40}, shares)
    again, rationale = taught_from({3: 40, 4: 40}, {size: c.data_ratio for size, c in config.sizes.items()})
    assert [c.data_ratio for c in again.sizes.values()] == [0.5, 0.5]
    assert config == again
    assert rationale == "Keep the shares, they fit the failures."


def test_waits_rise_where_plans_are_valid_and_fall_where_they_fail():
    config, _ = taught_from({3: 90, 4: 60, 5: 40, 6: 10})
    assert [c.wait_ratio for c in config.sizes.values()] == [0.75, 0.75, 0.5, 0.25]


def test_waits_stay_between_a_quarter_and_three_quarters():
    assert taught_from({3: 90}, wait_ratio=1)[0].sizes[3].wait_ratio == 0.75
    assert taught_from({3: 0}, wait_ratio=0)[0].sizes[3].wait_ratio == 0.25


def test_holes_rise_only_where_a_size_is_solved_and_only_to_the_limit():
    config, _ = taught_from({3: 90, 4: 60, 5: 10})
    assert [c.hole_ratio for c in config.sizes.values()] == [0.4, 0.3, 0.3]
    assert taught_from({3: 99}, hole_ratio=0.4)[0].sizes[3].hole_ratio == 0.4


@repeatable
@given(seeds)
def test_what_the_rule_says_survives_the_answer_format(seed: int):
    context = made_up(seed, SPACE)
    config, rationale = teach(context)
    read, raw = parse_answer(answer_text(rationale, config))
    projected, changes = project(raw, SPACE, context.current.config)
    assert read == rationale
    assert changes == ()
    for size, c in config.sizes.items():
        assert abs(projected.sizes[size].data_ratio - c.data_ratio) < 1e-6
        assert (projected.sizes[size].hole_ratio, projected.sizes[size].wait_ratio) == (c.hole_ratio, c.wait_ratio)


def test_lessons_repeat_themselves_and_differ_by_seed():
    few = lessons(SPACE, 14, seed=5)
    assert few == lessons(SPACE, 14, seed=5)
    assert few[:7] == lessons(SPACE, 7, seed=5)
    assert not {question for question, _ in few} & {question for question, _ in lessons(SPACE, 14, seed=6)}


def waits_after(moving: int, waiting: int, before: float) -> float:
    """The rule's wait ratio where so many of 50 boards each are valid that need no wait, and that need one."""
    part = size_breakdown(100, moving + waiting, 0).model_copy(update={"waiting": 50, "waiting_valid": waiting})
    space = ConfigSpace(map_sizes=(4,), min_hole_ratio=0.2, max_hole_ratio=0.4)
    record = StageRecord(stage=0, config=env_config({4: (1, 0.3, before)}), breakdown=Breakdown(sizes={4: part}))
    return teach(DesignContext(space=space, current=record, stages=3, instances=100, epochs=1))[0].sizes[4].wait_ratio


@pytest.mark.parametrize(
    ("moving", "waiting", "before", "after"),
    [(38, 4, 0.25, 0.75), (30, 15, 0.25, 0.5), (30, 25, 0.5, 0.5), (15, 0, 0.5, 0.25), (38, 4, 0.75, 0.75), (15, 0, 0.25, 0.25)],
)
def test_waits_rise_where_boards_that_need_one_lag_behind_and_fall_where_none_is_solved(moving: int, waiting: int, before: float, after: float):
    assert waits_after(moving, waiting, before) == after


def test_the_rule_knows_of_waits_only_what_the_variant_shows():
    plain, shown = (lessons(SPACE, 60, seed=5, taught=(variant,)) for variant in ("V6", "V6W"))
    assert [question for question, _ in plain] == [re.sub(r"Valid where a wait is needed(.|\n)*?(?=Answer with)", "", question) for question, _ in shown]
    assert {answer == other for (_, answer), (_, other) in zip(plain, shown, strict=True)} == {True, False}
