"""Environments by name, and what a space refuses."""

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from support.boards import boards_config

from envgen.config import EnvConfig
from envgen.environment import Source
from envgen.errors import ConfigError
from envgen.mapf.space import Options, space_of
from envgen.registry import ENVIRONMENTS, EnvironmentSpec
from envgen.space import Space

SPACE = space_of(Options(map_sizes=(3, 4), min_hole_ratio=0.2, max_wait_ratio=0.75))


def config_of(**knobs: float) -> EnvConfig:
    part = {"data_ratio": 0.5, "hole_ratio": 0.2, "wait_ratio": 0.5, **knobs}
    return EnvConfig.model_validate({"sizes": {"3": part, "4": part}})


def test_an_unknown_environment_is_answered_with_the_known_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")  # a path that cannot be read hides none
    monkeypatch.setattr(sys, "path", [str(tmp_path / "file" / "inside"), str(tmp_path / "gone"), *sys.path])
    with pytest.raises(
        ConfigError,
        match=r"environment.name: there is no environment 'sum'; did you mean 'sums'\? "
        "known are mapf-frozenlake, dataset, module, reasoning-gym, sums",
    ):
        ENVIRONMENTS.load("sum")


def test_options_are_filled_in_and_checked():
    assert EnvironmentSpec(name="sums").resolved().options == {"terms": [2, 3, 4]}
    for options, said in (({"terms": [1]}, "terms.0"), ({"depth": 3}, "depth: Extra inputs")):
        with pytest.raises(ConfigError, match=f"environment.options: {said}"):
            EnvironmentSpec(name="sums", options=options).resolved()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (config_of(hole_ratio=0.1), r"sizes.3.hole_ratio: 0.1 is outside of the space, 0.2 to 0.5"),
        (config_of(wait_ratio=0.8), r"sizes.3.wait_ratio: 0.8 is outside of the space, 0 to 0.75"),
        (config_of(depth=1), r"sizes.3.depth: is missing or unknown; the knobs are hole_ratio, wait_ratio"),
        (boards_config({3: (1, 0.2, 0.5)}), r"sizes: names \['3'\], the space \['3', '4'\]"),
    ],
)
def test_a_config_outside_of_the_space_is_named_by_its_field(config: EnvConfig, said: str):
    SPACE.check(config_of())
    with pytest.raises(ValueError, match=said):
        SPACE.check(config)


def test_strata_have_different_names():
    with pytest.raises(ValidationError, match="a name is given twice"):
        Space.model_validate({**SPACE.model_dump(), "strata": [SPACE.strata[0], SPACE.strata[0]]})


def test_a_sum_is_the_last_number_of_an_answer_and_no_part_of_one():
    environment = EnvironmentSpec(name="sums").load()
    drawn = environment.generate("2", {"digits": 1, "carry_ratio": 1}, 1, Source(0), frozenset()).instances
    forms = ("{}", "= {}.", "so it is {}", "-{}", "9" * 20 + "{}", "3.{}")
    verdicts = environment.judge(drawn * 6, [form.format(environment.reference(drawn[0])) for form in forms])
    assert [verdict.valid for verdict in verdicts] == [True] * 3 + [False] * 3
