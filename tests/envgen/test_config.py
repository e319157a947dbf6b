import json
import math

import pytest
from board_makers import repeatable
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from envgen.config import EnvConfig
from envgen.errors import describe_validation_error
from envgen.mapf.config import BoardsConfig, SizeConfig

GOOD_SIZE = {"data_ratio": 1.0, "hole_ratio": 0.2, "wait_ratio": 0.5}


def config_of(shares: dict[int, float]) -> BoardsConfig:
    return BoardsConfig(
        sizes={
            size: SizeConfig(data_ratio=share, hole_ratio=0.2, wait_ratio=0.5)
            for size, share in shares.items()
        }
    )


def test_a_config_survives_json():
    config = config_of({3: 0.25, 10: 0.75})
    assert BoardsConfig.model_validate_json(config.model_dump_json()) == config
    assert list(config.sizes) == [3, 10]


@pytest.mark.parametrize("field", ["data_ratio", "hole_ratio", "wait_ratio"])
@pytest.mark.parametrize(
    "value", [-0.01, 1.01, 10**9, math.nan, math.inf, -math.inf, "half", None, [0.5], {}]
)
def test_a_ratio_that_is_no_number_from_0_to_1_is_refused(field: str, value: object):
    with pytest.raises(ValidationError) as caught:
        SizeConfig.model_validate({**GOOD_SIZE, field: value})
    assert caught.value.errors()[0]["loc"] == (field,)


def test_more_than_half_of_the_cells_cannot_be_holes():
    assert SizeConfig.model_validate({**GOOD_SIZE, "hole_ratio": 0.5}).hole_ratio == 0.5
    with pytest.raises(ValidationError, match="hole_ratio"):
        SizeConfig.model_validate({**GOOD_SIZE, "hole_ratio": 0.51})


def test_json_with_nan_or_infinity_is_refused():
    for word in ("NaN", "Infinity", "-Infinity"):
        text = json.dumps({"sizes": {"4": GOOD_SIZE}}).replace("0.2", word)
        with pytest.raises(ValidationError, match="hole_ratio"):
            BoardsConfig.model_validate_json(text)


@pytest.mark.parametrize("size", [0, -4, 2, 11, 10**9, 4.5, True, "four", None, ""])
def test_a_map_size_that_is_not_from_3_to_10_is_refused(size: object):
    with pytest.raises(ValidationError, match="sizes"):
        BoardsConfig.model_validate({"sizes": {size: GOOD_SIZE}})


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"sizes": {}},
        {"sizes": None},
        {"sizes": []},
        [],
        "config",
        None,
        {"sizes": {4: GOOD_SIZE}, "reward": 1},
    ],
)
def test_a_config_of_another_shape_is_refused(value: object):
    with pytest.raises(ValidationError):
        BoardsConfig.model_validate(value)


def test_an_unknown_or_missing_ratio_is_named():
    with pytest.raises(ValidationError, match="colour"):
        SizeConfig.model_validate({**GOOD_SIZE, "colour": 1})
    with pytest.raises(ValidationError, match="wait_ratio"):
        SizeConfig.model_validate({"data_ratio": 1, "hole_ratio": 0})


@pytest.mark.parametrize("shares", [{3: 0.5}, {3: 0.5, 4: 0.6}, {3: 0.0}, {3: 0.5, 4: 0.49999}])
def test_shares_that_do_not_sum_to_one_are_refused_with_their_sum(shares: dict[int, float]):
    with pytest.raises(ValidationError, match=f"data_ratio sums to {sum(shares.values()):.6g}"):
        config_of(shares)


def test_shares_may_miss_one_by_rounding():
    assert sum(config_of(dict.fromkeys(range(3, 10), 1 / 7)).counts(1_000).values()) == 1_000
    assert sum(config_of({3: 0.333333, 4: 0.333333, 5: 0.3333335}).counts(1_000).values()) == 1_000


def test_a_config_cannot_be_changed_in_place():
    config = config_of({3: 1.0})
    with pytest.raises(ValidationError):
        config.sizes = {}
    with pytest.raises(ValidationError):
        config.sizes[3].hole_ratio = 0.4


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
    config = config_of({**shares, largest: min(1.0, shares[largest] + slack)})
    counts = config.counts(total)
    assert sum(counts.values()) == total
    assert set(counts) == set(shares)
    for size, share in shares.items():
        assert counts[size] >= 0
        assert abs(counts[size] - share * total) < 1 + 1e-6 * total + 1e-3
        if share == 0:
            assert counts[size] == 0


def test_counts_go_by_largest_remainder():
    assert config_of({3: 0.5, 4: 0.3, 5: 0.2}).counts(4) == {3: 2, 4: 1, 5: 1}
    assert config_of({5: 0.1, 4: 0.2, 3: 0.7}).counts(10) == {3: 7, 4: 2, 5: 1}
    assert config_of({3: 1.0}).counts(7) == {3: 7}


def test_a_validation_error_is_described_by_place_problem_and_value():
    with pytest.raises(ValidationError) as caught:
        BoardsConfig.model_validate({"sizes": {4: {**GOOD_SIZE, "hole_ratio": 0.9, "x" * 200: "y" * 200}}})
    lines = describe_validation_error(caught.value, "config.yaml").splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("config.yaml: sizes.4.hole_ratio: ")
    assert lines[0].endswith("(got 0.9)")
    assert len(lines[1]) < 400


def test_the_config_of_any_family_has_the_same_json():
    boards = config_of({3: 0.25, 10: 0.75})
    config = EnvConfig.model_validate_json(boards.model_dump_json())
    assert config.model_dump_json() == boards.model_dump_json()
    assert BoardsConfig.of(config) == boards
    assert boards.config == config
    assert config.key == "sizes"
    assert config.strata["3"]["hole_ratio"] == 0.2
    assert config.counts(7) == {"3": 2, "10": 5}


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"sizes": {"4": {**GOOD_SIZE, "data_ratio": 2}}}, "sizes.4: data_ratio: "),
        ({"sizes": {"4": {**GOOD_SIZE, "wait_ratio": "half"}}}, "sizes.4: wait_ratio: "),
        ({"sizes": {"4": {**GOOD_SIZE, "wait_ratio": math.nan}}}, "sizes.4: wait_ratio: "),
        ({"sizes": {"4": 1}}, "sizes.4: "),
        ({"terms": {"2": {"data_ratio": 0.5}}}, "data_ratio sums to 0.5 over all terms"),
    ],
)
def test_what_is_wrong_with_the_config_of_any_family_is_named(value: dict, complaint: str):
    with pytest.raises(ValidationError) as caught:
        EnvConfig.model_validate(value)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"sizes": {}},
        {"sizes": None},
        {"sizes": []},
        [],
        "config",
        None,
        {"sizes": {"4": GOOD_SIZE}, "reward": 1},
    ],
)
def test_what_has_not_the_shape_of_a_config_is_refused(value: object):
    with pytest.raises(ValidationError):
        EnvConfig.model_validate(value)


def test_no_part_of_a_config_can_be_changed_in_place():
    config = config_of({3: 1.0}).config
    with pytest.raises(ValidationError):
        config.strata["3"].data_ratio = 0.4
    with pytest.raises(ValidationError):
        config.strata = {}
