"""What `--set` does to a preset."""

from pathlib import Path

import pytest
from small_preset import complaint

from envgen.errors import ConfigError
from infra.config.dotted import parse_override
from infra.config.preset import load_preset


def test_off_is_a_word_and_true_is_a_boolean(file: Path):
    preset = load_preset(str(file), dict(map(parse_override, ["engineer.gate=off", "trl.bf16=true"])))
    assert (preset.engineer.gate, preset.trl["bf16"]) == ("off", True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stages=5", ("stages", 5)),
        ("trl.learning_rate=1e-4", ("trl.learning_rate", 1e-4)),
        ("trl.learning_rate=-2E+3", ("trl.learning_rate", -2000.0)),
        ("trl.beta=0.0", ("trl.beta", 0.0)),
        ("trl.bf16=false", ("trl.bf16", False)),
        ("model=~/models/a=b", ("model", "~/models/a=b")),
        ("description=", ("description", None)),
        ("description='12'", ("description", "12")),
        ("environment.options.map_sizes=[3, 4]", ("environment.options.map_sizes", [3, 4])),
        ("validation={instances: 3}", ("validation", {"instances": 3})),
        ("description=[unclosed", ("description", "[unclosed")),
        ("description=2020-13-45", ("description", "2020-13-45")),
        ("description=1e4 boards", ("description", "1e4 boards")),
    ],
)
def test_an_override_is_read_as_yaml(text: str, expected: tuple[str, object]):
    key, value = parse_override(text)
    assert (key, value) == expected
    assert type(value) is type(expected[1])


@pytest.mark.parametrize("text", ["", "stages", "=5", "stages:5"])
def test_an_override_without_key_or_value_is_refused(text: str):
    with pytest.raises(ConfigError, match="expected KEY=VALUE") as refused:
        parse_override(text)
    assert repr(text) in str(refused.value)


def test_overrides_reach_every_depth(file: Path):
    texts = [
        "stages=7",
        "trl.beta=0.5",
        "trl.loss_type=dapo",
        "engineer.variant=V1",
        "default_config.sizes.3.wait_ratio=0.75",
        "rewards.format=0.1",
    ]
    overrides = dict(map(parse_override, texts))
    preset = load_preset(str(file), overrides)
    assert (preset.stages, preset.trl, preset.engineer.variant) == (
        7,
        {"beta": 0.5, "loss_type": "dapo"},
        "V1",
    )
    assert [part["wait_ratio"] for part in preset.default_config.strata.values()] == [0.75, 0.5]
    assert preset.rewards.format == 0.1


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("stagse", 3, "stagse: Extra inputs are not permitted"),
        ("stages", 0, "stages: Input should be greater than or equal to 1"),
        ("stages.more", 3, "--set stages.more: 'stages' is a value, not a group of fields"),
        ("trl", None, "trl: Input should be a valid dictionary"),
        ("default_config.sizes.3.data_ratio", 0.9, "data_ratio sums to"),
        ("default_config.sizes.three.data_ratio", 0.0, "default_config.sizes: names"),
    ],
)
def test_an_override_that_fits_nowhere_is_refused(key: str, value: object, expected: str):
    assert expected in complaint("micro", {key: value})


def test_a_numbered_key_of_a_preset_in_json_is_set_and_not_added(file: Path):
    whole = load_preset(str(file)).model_dump_json()
    preset = load_preset(whole, {"default_config.sizes.3.wait_ratio": 0.75})
    before, after = load_preset(whole).default_config.strata, preset.default_config.strata
    assert after["3"].knobs == {**before["3"].knobs, "wait_ratio": 0.75}
    assert after.keys() == before.keys()
