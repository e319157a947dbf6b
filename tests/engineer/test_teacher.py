import itertools
import re

import numpy as np
import pytest
from contexts import boards, breakdown, counts, env_config, repeatable, waits
from hypothesis import given
from hypothesis import strategies as st

from engineer.answer import SHARE_ROUNDING, answer_text, parse_answer, project
from engineer.context import DesignContext, StageRecord
from engineer.lessons import lessons, random_context, with_labels
from engineer.teacher import teach
from envgen.mapf.space import random_space
from envgen.space import Space

SPACE = boards(3, 4, 5, 6, low=0.2, high=0.4)
spaces = st.sampled_from([SPACE, boards(4), boards(3, 10, high=0.3), boards(*range(3, 11))])
seeds = st.integers(0, 2**32 - 1)


def made_up(seed: int, space: Space) -> DesignContext:
    rng = np.random.default_rng(seed)
    context = random_context(rng, space)
    return with_labels(context, rng) if seed % 2 else context


def taught_from(
    rates: dict[int, int],
    shares: dict[int, float] | None = None,
    hole_ratio: float = 0.3,
    wait_ratio: float = 0.5,
):
    """The rule's answer to valid rates in percent, given shares (even ones if left out)."""
    space = boards(*rates, low=0.2, high=0.4)
    config = env_config(
        {size: (shares[size] if shares else 1 / len(rates), hole_ratio, wait_ratio) for size in rates}
    )
    seen = breakdown({size: counts(100, valid, valid // 2) for size, valid in rates.items()})
    record = StageRecord(stage=0, config=config, breakdown=seen)
    return teach(DesignContext(space=space, current=record, stages=3, instances=100, epochs=1))


@repeatable
@given(seeds, spaces)
def test_every_clause_is_true_of_the_numbers_shown(seed: int, space: Space):
    context = made_up(seed, space)
    config, rationale = teach(context)
    clauses = re.findall(
        r"(\d+)x\1 (\d+)% valid(?:, waits (\d+)%)?: "
        r"(\d) parts? of data with waits (\d\.\d\d), holes (\d\.\d\d)\.",
        rationale,
    )
    assert [clause[0] for clause in clauses] == list(space.names)
    total = sum(int(clause[3]) for clause in clauses)
    for size, valid, waiting, parts, *knobs in clauses:
        part = context.current.breakdown.strata[size]
        assert int(valid) == part.valid_percent
        sides = part.split("wait_required")
        assert waiting == ("" if sides is None else str(sides[0].valid_percent))
        new = config.strata[size]
        assert new.data_ratio == pytest.approx(int(parts) / total)
        assert knobs == [f"{new[knob]:.2f}" for knob in ("wait_ratio", "hole_ratio")]


@repeatable
@given(st.permutations([50, 3, 97, 5]))
def test_most_data_goes_to_the_size_that_is_solved_half_of_the_time(rates: list[int]):
    valid = dict(zip((3, 4, 5, 6), rates, strict=True))
    config, rationale = taught_from(valid)
    half = next(size for size, rate in valid.items() if rate == 50)
    assert config.strata[str(half)].data_ratio == 0.5
    assert f"{half}x{half} 50% valid: 3 parts of data with waits 0.75, holes 0.30." in rationale


@repeatable
@given(st.lists(st.integers(0, 100), min_size=4, max_size=4))
def test_a_size_nearer_to_half_never_gets_less(rates: list[int]):
    valid = dict(zip((3, 4, 5, 6), rates, strict=True))
    config, _ = taught_from(valid)
    for a, b in itertools.permutations(valid, 2):
        if abs(valid[a] - 50) < abs(valid[b] - 50) - 1:
            assert config.strata[str(a)].data_ratio >= config.strata[str(b)].data_ratio


def test_shares_follow_from_the_rates_alone():
    config, rationale = taught_from({3: 40, 4: 40}, {3: 0.45, 4: 0.55})
    assert [c.data_ratio for c in config.strata.values()] == [0.5, 0.5]
    assert rationale == (
        "3x3 40% valid: 3 parts of data with waits 0.75, holes 0.30. "
        "4x4 40% valid: 3 parts of data with waits 0.75, holes 0.30."
    )


def test_a_config_that_fits_stays_as_it_is():
    config, rationale = taught_from({3: 15, 4: 25}, wait_ratio=0, hole_ratio=0.2)
    assert [(c.data_ratio, *c.knobs.values()) for c in config.strata.values()] == [
        (0.5, 0.2, 0),
        (0.5, 0.2, 0),
    ]
    assert rationale == (
        "3x3 15% valid: 2 parts of data with waits 0.00, holes 0.20. "
        "4x4 25% valid: 2 parts of data with waits 0.00, holes 0.20."
    )


def test_waits_rise_where_plans_are_valid_and_fall_where_they_fail():
    config, _ = taught_from({3: 90, 4: 60, 5: 20, 6: 5})
    assert [c["wait_ratio"] for c in config.strata.values()] == [0.75, 0.75, 0.5, 0.25]


def test_waits_use_the_whole_range():
    assert taught_from({3: 90}, wait_ratio=0.75)[0].strata["3"]["wait_ratio"] == 1
    assert taught_from({3: 90}, wait_ratio=1)[0].strata["3"]["wait_ratio"] == 1
    assert taught_from({3: 0}, wait_ratio=0.25)[0].strata["3"]["wait_ratio"] == 0


def test_holes_rise_where_a_size_is_solved_and_fall_where_it_is_not_within_the_space():
    config, _ = taught_from({3: 90, 4: 60, 5: 10})
    assert [c["hole_ratio"] for c in config.strata.values()] == [0.4, 0.3, 0.2]
    assert taught_from({3: 99}, hole_ratio=0.4)[0].strata["3"]["hole_ratio"] == 0.4
    assert taught_from({3: 1}, hole_ratio=0.2)[0].strata["3"]["hole_ratio"] == 0.2


@repeatable
@given(seeds)
def test_what_the_rule_says_survives_the_answer_format(seed: int):
    context = made_up(seed, SPACE)
    config, rationale = teach(context)
    read, raw = parse_answer(answer_text(rationale, config), SPACE)
    projected, changes = project(raw, SPACE, context.current.config)
    assert read == rationale
    assert changes == ()
    for name, part in config.strata.items():
        assert abs(projected.strata[name].data_ratio - part.data_ratio) <= 2 * SHARE_ROUNDING
        assert projected.strata[name].knobs == part.knobs


def some(count: int, seed: int, spaces=random_space, **options) -> list[tuple[str, str]]:
    return list(itertools.islice(lessons(seed, spaces, **options), count))


def test_lessons_repeat_themselves_and_differ_by_seed():
    few = some(20, seed=5)
    assert few == some(20, seed=5)
    assert few[:7] == some(7, seed=5)
    assert not {question for question, _ in few} & {question for question, _ in some(20, seed=6)}


def waits_after(moving: int, waiting: int, before: float) -> float:
    """The rule's wait ratio where so many of 50 boards each are valid that need none and that need a wait."""
    part = waits(counts(100, moving + waiting, 0), 50, waiting)
    record = StageRecord(stage=0, config=env_config({4: (1, 0.3, before)}), breakdown=breakdown({4: part}))
    space = boards(4, low=0.2, high=0.4)
    context = DesignContext(space=space, current=record, stages=3, instances=100, epochs=1)
    return teach(context)[0].strata["4"]["wait_ratio"]


@pytest.mark.parametrize(
    ("moving", "waiting", "before", "after"),
    [
        (38, 4, 0.25, 0.75),
        (45, 24, 0.5, 1),
        (45, 25, 0.25, 0.5),
        (30, 38, 0.5, 0.5),
        (15, 0, 0.5, 0.5),
        (9, 0, 0.5, 0.25),
        (38, 4, 1, 1),
        (9, 0, 0, 0),
    ],
)
def test_waits_rise_until_boards_that_need_one_are_mostly_solved_and_fall_where_none_is(
    moving: int, waiting: int, before: float, after: float
):
    assert waits_after(moving, waiting, before) == after


def test_the_rule_knows_of_waits_only_what_the_variant_shows():
    plain, shown = (
        some(60, seed=5, taught=(variant,), spaces=lambda rng: SPACE) for variant in ("V6", "V6W")
    )
    assert [question for question, _ in plain] == [
        re.sub(r"Valid where a wait is needed(.|\n)*?(?=Answer with)", "", question) for question, _ in shown
    ]
    assert all(", waits " not in answer for _, answer in plain)
    assert all(", waits " in answer for _, answer in shown)
