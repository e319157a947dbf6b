"""A share of the default config in every proposal."""

import pytest
from contexts import env_config, repeatable
from hypothesis import given
from hypothesis import strategies as st

from engineer.propose import anchored
from envgen.config import EnvConfig

ratios = st.floats(0, 1)
CONFIG = env_config({3: (0.8, 0.4, 1.0), 5: (0.2, 0.2, 0.0)})
DEFAULT = env_config({3: (0.4, 0.2, 0.5), 5: (0.6, 0.3, 0.5)})


def test_no_share_and_the_whole_share_leave_one_of_the_two():
    assert anchored(CONFIG, DEFAULT, 0) == CONFIG
    assert anchored(CONFIG, DEFAULT, 1) == DEFAULT


def test_a_half_is_the_mean_over_instances_not_over_knobs():
    mixed = anchored(CONFIG, DEFAULT, 0.5).strata
    # 3x3: 40 % of all data with ratios 0.4 and 1, 20 % with 0.2 and 0.5.
    assert dict(mixed["3"]) == pytest.approx(
        {"data_ratio": 0.6, "hole_ratio": 0.2 / 0.6, "wait_ratio": 0.5 / 0.6}
    )
    assert dict(mixed["5"]) == pytest.approx(
        {"data_ratio": 0.4, "hole_ratio": 0.11 / 0.4, "wait_ratio": 0.15 / 0.4}
    )


def test_sizes_of_one_config_only_keep_their_knobs():
    mixed = anchored(env_config({3: (1, 0.4, 1)}), env_config({5: (1, 0.2, 0.5)}), 0.25).strata
    assert {name: (part.data_ratio, *part.knobs.values()) for name, part in mixed.items()} == {
        "3": (0.75, 0.4, 1.0),
        "5": (0.25, 0.2, 0.5),
    }


def test_a_size_that_neither_part_has_data_of_has_none():
    mixed = anchored(
        env_config({3: (0, 0.4, 1), 4: (1, 0.2, 0)}), env_config({3: (1, 0.4, 1), 4: (0, 0.2, 0)}), 1
    )
    assert [knobs.data_ratio for knobs in mixed.strata.values()] == [1, 0]


@repeatable
@given(ratios, ratios, st.lists(ratios, min_size=8, max_size=8))
def test_wait_instances_and_holes_add_up(share: float, first: float, knobs: list[float]):
    def config(data: float, values: list[float]) -> EnvConfig:
        sizes = {3: (data, values[0], values[1]), 4: (1 - data, values[2], values[3])}
        return env_config({size: (data, holes / 2, waits) for size, (data, holes, waits) in sizes.items()})

    one, other = config(first, knobs[:4]), config(1 - first, knobs[4:])
    mixed = anchored(one, other, share)
    for name in ("3", "4"):
        for knob in ("hole_ratio", "wait_ratio"):
            weighted = ((1, mixed), (1 - share, one), (share, other))
            amounts = [weight * c.strata[name].data_ratio * c.strata[name][knob] for weight, c in weighted]
            assert amounts[0] == pytest.approx(amounts[1] + amounts[2], abs=1e-9)
