"""What an edit of a config changes, in words."""

from envgen.config import EnvConfig
from envgen.mapf.space import Options, space_of
from envgen.registry import EnvironmentSpec
from infra.analysis.formats import SPACE, config_changes


def boards(**sizes: tuple[float, float, float]) -> EnvConfig:
    """`s3=(data_ratio, hole_ratio, wait_ratio)` and so on."""
    names = ("data_ratio", "hole_ratio", "wait_ratio")
    return EnvConfig.model_validate(
        {"sizes": {size[1:]: dict(zip(names, ratios, strict=True)) for size, ratios in sizes.items()}}
    )


def test_what_a_config_changes_is_said_in_words():
    space = space_of(Options(map_sizes=(3, 4, 10)))
    old, new = boards(s3=(0.5, 0.3, 0.25), s4=(0.5, 0.3, 0.25)), boards(s3=(0.5, 0.3, 0.25), s4=(0.5, 0.2, 1))
    other = boards(s3=(1, 0.3, 0.25))
    said = [
        config_changes(space, *pair).replace(SPACE, " ") for pair in ((old, new), (old, other), (other, old))
    ]
    assert said[0] == "4x4: holes 30 % → 20 %, waits 25 % → 100 %"
    assert said[1:] == ["3x3: data 50 % → 100 %; 4x4: left out", "3x3: data 100 % → 50 %; 4x4: new"]
    assert config_changes(space, old, old) == "nothing"
    largest = boards(s10=(0.5, 0.3, 0.25), s3=(0.5, 0.3, 0.25))
    assert config_changes(space, old, largest) == "4x4: left out; 10x10: new", "in the order of the space"


def test_a_knob_that_is_no_share_is_said_as_a_number():
    space = EnvironmentSpec(name="sums").load().space
    old, new = (
        EnvConfig.model_validate({"terms": {"2": {"data_ratio": 1, "digits": n, "carry_ratio": 0.5}}})
        for n in (1, 2.5)
    )
    assert config_changes(space, old, new) == "2 terms: digits 1 → 2.5"
