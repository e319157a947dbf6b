"""Environment configs: what JSON they take, and how they divide a data set."""

import math

import pytest
from board_makers import repeatable
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.boards import boards_config

from envgen.config import EnvConfig
from envgen.errors import describe_validation_error

GOOD_SIZE = {"data_ratio": 1.0, "hole_ratio": 0.2, "wait_ratio": 0.5}


def config_of(shares: dict[int, float]) -> EnvConfig:
    return boards_config({size: (share, 0.2, 0.5) for size, share in shares.items()})


def test_a_config_survives_json():
    config = config_of({3: 0.25, 10: 0.75})
    assert EnvConfig.model_validate_json(config.model_dump_json()) == config
    assert (config.key, list(config.strata)) == ("sizes", ["3", "10"])
    assert config.strata["3"]["hole_ratio"] == 0.2


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"sizes": {"4": {**GOOD_SIZE, "data_ratio": 2}}}, "sizes.4: data_ratio: "),
        ({"sizes": {"4": {**GOOD_SIZE, "wait_ratio": "half"}}}, "sizes.4: wait_ratio: "),
        ({"sizes": {"4": {**GOOD_SIZE, "wait_ratio": math.nan}}}, "sizes.4: wait_ratio: "),
        ({"sizes": {"4": 1}}, "sizes.4: "),
        ({"terms": {"2": {"data_ratio": 0.5}}}, "data_ratio sums to 0.5 over all terms"),
        *((value, "") for value in ({}, {"sizes": {}}, {"sizes": None}, {"sizes": []}, [], "config", None)),
        ({"sizes": {"4": GOOD_SIZE}, "reward": 1}, "reward"),
        ({"sizes": {"4": GOOD_SIZE, 4: {**GOOD_SIZE, "data_ratio": 0}}}, "sizes.4: stands twice"),
    ],
)
def test_a_wrong_config_of_any_environment_is_refused(value: object, complaint: str):
    with pytest.raises(ValidationError) as caught:
        EnvConfig.model_validate(value)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("shares", [{3: 0.5}, {3: 0.5, 4: 0.6}, {3: 0.0}, {3: 0.5, 4: 0.49999}])
def test_shares_that_do_not_sum_to_one_are_refused_with_their_sum(shares: dict[int, float]):
    with pytest.raises(ValidationError, match=f"data_ratio sums to {sum(shares.values()):.6g}"):
        config_of(shares)


@st.composite
def share_tables(draw: st.DrawFn) -> dict[int, float]:
    sizes = draw(st.lists(st.integers(3, 10), min_size=1, max_size=8, unique=True))
    weights = draw(st.lists(st.integers(0, 1_000), min_size=len(sizes), max_size=len(sizes)).filter(any))
    return {size: weight / sum(weights) for size, weight in zip(sizes, weights, strict=True)}


@repeatable
@given(share_tables(), st.integers(0, 20_000_000), st.floats(-9e-7, 9e-7))
def test_counts_sum_to_the_total_and_stay_within_one_of_the_exact_share(
    shares: dict[int, float], total: int, slack: float
):
    largest = max(shares, key=shares.__getitem__)
    counts = config_of({**shares, largest: min(1.0, shares[largest] + slack)}).counts(total)
    assert sum(counts.values()) == total
    assert list(counts) == list(map(str, shares))
    for size, share in shares.items():
        assert counts[str(size)] >= 0
        assert abs(counts[str(size)] - share * total) < 1 + 1e-6 * total + 1e-3
        if share == 0:
            assert counts[str(size)] == 0


def test_counts_go_by_largest_remainder():
    assert config_of({3: 0.5, 4: 0.3, 5: 0.2}).counts(4) == {"3": 2, "4": 1, "5": 1}
    assert config_of({5: 0.1, 4: 0.2, 3: 0.7}).counts(10) == {"5": 1, "4": 2, "3": 7}


def test_data_that_moves_is_half_of_the_differences_of_all_shares():
    even, uneven = config_of(dict.fromkeys(range(3, 7), 0.25)), config_of({3: 0.1, 4: 0.45, 5: 0.25, 6: 0.2})
    assert even.moved(uneven) == uneven.moved(even) == pytest.approx(0.20)
    assert even.moved(even) == 0
    assert config_of({3: 1.0}).moved(config_of({4: 1.0})) == 1


def test_a_validation_error_is_described_by_place_problem_and_value():
    with pytest.raises(ValidationError) as caught:
        EnvConfig.model_validate({"strata": {"4": {"data_ratio": 1.5, "knob": "y" * 200}}})
    lines = describe_validation_error(caught.value, "config.yaml").splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("config.yaml: strata.4.data_ratio: ")
    assert lines[0].endswith("(got 1.5)")
    assert len(lines[1]) < 400
