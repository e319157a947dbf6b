import re
from pathlib import Path
from typing import Any

import pytest
from support.presets import EVERY

from envgen.config import EnvConfig
from envgen.errors import ConfigError, DataError
from envgen.mapf.config import BoardsConfig
from envgen.mapf.space import Options, space_of
from envgen.yaml_files import read_env_config, read_yaml
from infra.config.preset import (
    PRESETS,
    Preset,
    ValidationSpec,
    load_preset,
    parse_override,
    resolved_json,
    shipped_presets,
)

SMALL = """
name: small
prompt_style: compact
model: tiny
instances: 10
max_answer_tokens: 40
family:
  options: {map_sizes: [3, 4]}
default_config:
  sizes:
    3: {data_ratio: 0.5, hole_ratio: 0.2, wait_ratio: 0.5}
    4: {data_ratio: 0.5, hole_ratio: 0.2, wait_ratio: 0.5}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def changed(file: Path, old: str, new: str) -> str:
    """The path of the small preset with one text replaced by another."""
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    return str(file)


def complaint(name: str, overrides: dict[str, Any] | None = None) -> str:
    with pytest.raises((ConfigError, DataError)) as refused:
        load_preset(name, overrides)
    return str(refused.value)


@pytest.mark.parametrize("name", EVERY)
def test_every_shipped_preset_loads_under_its_own_name(name: str):
    preset = load_preset(name)
    assert preset.name == name
    assert preset.description
    assert Preset.model_validate(resolved_json(preset)) == preset


def test_the_presets_of_the_readme_are_shipped():
    assert {"tiny", "micro"} <= set(shipped_presets())


def test_presets_of_the_tiny_policy_ask_it_in_the_wording_it_was_taught(file: Path):
    for engineer in ("checkpoint", "base"):
        asked = load_preset("tiny", {"engineer.name": engineer}).effective_engineer()
        assert (asked.wording, asked.max_tokens) == ("compact", 160)
    large = {
        "engineer.name": "openai",
        "engineer.options.base_url": "http://localhost:8000/v1",
        "engineer.options.model": "large",
    }
    for asked in (
        load_preset("tiny", large).effective_engineer(),
        load_preset(str(file), {"model": "Qwen/Qwen3-4B"}).effective_engineer(),
    ):
        assert (asked.wording, asked.max_tokens) == ("full", 1024)


def test_off_is_a_word_and_true_is_a_boolean(file: Path):
    preset = load_preset(str(file), dict(map(parse_override, ["engineer.gate=off", "trl.bf16=true"])))
    assert (preset.engineer.gate, preset.trl["bf16"]) == ("off", True)


def test_a_preset_is_sparse_and_defaults_are_filled_in(file: Path):
    preset = load_preset(str(file))
    resolved = resolved_json(preset)
    assert (resolved["stages"], resolved["engineer"]["variant"], resolved["trl"]) == (3, "V6", {})
    options = {"agents": 2, "map_sizes": [3, 4], "min_hole_ratio": 0.0, "max_hole_ratio": 0.5}
    assert resolved["family"] == {"name": "mapf-frozenlake", "options": options}
    assert resolved["rewards"] == {"format": 0.0, "valid": 1.0, "optimal": 0.5}
    assert set(resolved) == set(Preset.model_fields)


BROKEN = {
    "an unknown field": (
        "name: small",
        "name: small\nstagse: 3",
        "stagse: Extra inputs are not permitted (got 3)",
    ),
    "a missing field": ("instances: 10", "", "instances: Field required"),
    "a text for a number": ("instances: 10", "instances: many", "instances: Input should be a valid integer"),
    "a fraction for a whole number": (
        "instances: 10",
        "instances: 10.5",
        "instances: Input should be a valid integer",
    ),
    "a list for a group": (
        "options: {map_sizes: [3, 4]}",
        "- 3",
        "family: Input should be a valid dictionary or instance of FamilySpec",
    ),
    "an unknown family": (
        "options: {map_sizes: [3, 4]}",
        "name: sum",
        "family.name: there is no family 'sum'; did you mean 'sums'?",
    ),
    "an unknown option of a family": (
        "map_sizes: [3, 4]",
        "map_size: [3, 4]",
        "family.options: map_size: Extra inputs are not permitted",
    ),
    "a number out of range": (
        "instances: 10",
        "instances: 0",
        "instances: Input should be greater than or equal to 1 (got 0)",
    ),
    "too many agents": (
        "map_sizes: [3, 4]",
        "map_sizes: [3, 4], agents: 6",
        "family.options: agents: Input should be less than or equal to 5 (got 6)",
    ),
    "a hole ratio out of range": (
        "3: {data_ratio: 0.5, hole_ratio: 0.2",
        "3: {data_ratio: 0.5, hole_ratio: 0.7",
        "default_config.sizes.3.hole_ratio: 0.7 is outside of the space, 0 to 0.5; move it inside",
    ),
    "a wait ratio that is no number": (
        "4: {data_ratio: 0.5, hole_ratio: 0.2, wait_ratio: 0.5}",
        "4: {data_ratio: 0.5, hole_ratio: 0.2, wait_ratio: .nan}",
        "sizes.4: wait_ratio: Input should be a finite number",
    ),
    "shares that do not sum to 1": (
        "3: {data_ratio: 0.5",
        "3: {data_ratio: 0.4",
        "default_config: Value error, data_ratio sums to 0.9 over all sizes",
    ),
    "map sizes that differ": (
        "map_sizes: [3, 4]",
        "map_sizes: [3, 4, 5]",
        "default_config.sizes: names ['3', '4'], the space ['3', '4', '5']",
    ),
    "map sizes that do not ascend": (
        "map_sizes: [3, 4]",
        "map_sizes: [4, 3]",
        "family.options: (top level): Value error, map_sizes [4, 3] must ascend",
    ),
    "a map size that is too large": (
        "map_sizes: [3, 4]",
        "map_sizes: [3, 11]",
        "family.options: map_sizes.1: Input should be less than or equal to 10 (got 11)",
    ),
    "an unknown prompt style": (
        "prompt_style: compact",
        "prompt_style: prose",
        "prompt_style 'prose' is not one of board, compact",
    ),
    "a name with a slash": ("name: small", "name: a/b", "name: String should match pattern"),
    "a validation board without room": (
        "map_sizes: [3, 4]}",
        "map_sizes: [3, 4], agents: 5}\nvalidation: {grid: {hole_ratio: [0.5]}}",
        "map size 3: hole_ratio 0.5 leaves 5 free cells for 5 agents",
    ),
    "a board without room": (
        "map_sizes: [3, 4]}\ndefault_config:\n  sizes:\n    3: {data_ratio: 0.5, hole_ratio: 0.2",
        "map_sizes: [3, 4], agents: 5}\ndefault_config:\n  sizes:\n    3: {data_ratio: 0.5, hole_ratio: 0.5",
        "map size 3: hole_ratio 0.5 leaves 5 free cells for 5 agents",
    ),
}
"""Mistake -> a text of the small preset, what stands there instead, and what is said."""
ADDED = {
    "an unknown nested field": (
        "engineer: {designr: base}",
        "engineer.designr: Extra inputs are not permitted (got 'base')",
    ),
    "an unknown knob of the grid": (
        "validation: {grid: {depth: [1]}}",
        "validation.grid.depth: there is no such knob; known are hole_ratio, wait_ratio",
    ),
    "an unknown term": ("rewards: {speed: 1}", "rewards.speed: mapf-frozenlake has no such term"),
    "an unknown variant": (
        "engineer: {variant: V9}",
        "engineer.variant 'V9' is not one of V1, V2, V3, V4, V5, V6, V6S, V6W, full-details, no-history",
    ),
    "an unknown wording": (
        "engineer: {wording: terse}",
        "engineer.wording: Input should be 'full' or 'compact' (got 'terse')",
    ),
    "retries of an answer": (
        "engineer: {retries: 2}",
        "engineer.retries: Extra inputs are not permitted (got 2)",
    ),
    "an unknown engineer": (
        "engineer: {name: oracle}",
        "engineer.name: there is no engineer 'oracle'; known are checkpoint, base,",
    ),
    "a misspelt engineer": (
        "engineer: {name: frontiers}",
        "there is no engineer 'frontiers'; did you mean 'frontier'?",
    ),
    "an option that its engineer does not have": (
        "engineer: {name: bandit, options: {temprature: 1}}",
        "engineer.options of engineer 'bandit': temprature: Extra inputs are not permitted (got 1)",
    ),
    "an option out of range": (
        "engineer: {name: bandit, options: {temperature: 0}}",
        "engineer.options of engineer 'bandit': temperature: Input should be greater than or equal to 0.01"
        " (got 0)",
    ),
    "a recording that is not there": (
        "engineer: {name: replay, options: {configs: nowhere/results.json}}",
        "engineer.options of engineer 'replay': configs: Value error, nowhere/results.json: no such file",
    ),
    "an engineer without its recording": (
        "engineer: {name: replay}",
        "engineer.options of engineer 'replay': configs: Field required",
    ),
    "a negative reward": (
        "rewards: {valid: -1}",
        "rewards.valid: Input should be greater than or equal to 0 (got -1)",
    ),
    "an option that TRL does not have": (
        "trl: {learning_rat: 0.1}",
        "trl.learning_rat: the installed trl.GRPOConfig has no such option; did you mean 'learning_rate'?",
    ),
    "an option that resembles none": (
        "trl: {zzzzqqqq: 1}",
        "trl.zzzzqqqq: the installed trl.GRPOConfig has no such option; see",
    ),
    "an option that envwright sets": (
        "trl: {top_p: 0.9}",
        "trl.top_p: envwright sets this option itself; remove it",
    ),
    "epochs under their TRL name": (
        "trl: {num_train_epochs: 3}",
        "trl.num_train_epochs: set the preset's own 'epochs' instead",
    ),
    "a hole ratio of the validation set out of range": (
        "validation: {grid: {hole_ratio: [0.2, 0.9]}}",
        "validation.grid.hole_ratio: 0.9 is outside of the space, 0 to 0.5; move it inside",
    ),
    "a wait ratio of the validation set out of range": (
        "validation: {grid: {wait_ratio: [-1]}}",
        "validation.grid.wait_ratio: -1 is outside of the space, 0 to 1; move it inside",
    ),
    "a validation set of nothing": (
        "validation: {grid: {wait_ratio: []}}",
        "validation.grid.wait_ratio: has no values; give one",
    ),
}
"""Mistake -> a line more, and what is said."""
BROKEN |= {name: ("model: tiny", f"model: tiny\n{line}", said) for name, (line, said) in ADDED.items()}


@pytest.mark.parametrize(("old", "new", "expected"), BROKEN.values(), ids=list(BROKEN))
def test_a_mistake_in_a_preset_is_named_with_file_and_field(file: Path, old: str, new: str, expected: str):
    message = complaint(changed(file, old, new))
    assert message.startswith(f"{file}: ")
    assert expected in message


def test_every_mistake_of_a_preset_is_told_at_once(file: Path):
    message = complaint(changed(file, "instances: 10", "instances: none\nepochs: 0"))
    assert [line.split(": ")[1] for line in message.splitlines()] == ["instances", "epochs"]


def test_an_unknown_preset_is_answered_with_the_shipped_ones(tmp_path: Path):
    for name in ("tinny", "../micro", str(tmp_path / "nowhere.yaml"), "", str(tmp_path)):
        message = complaint(name)
        assert message.startswith(f"{name}: no such preset")
        assert all(shipped in message for shipped in shipped_presets())


UNREADABLE = {
    "an open bracket": "name: [",
    "a tab for indentation": "a:\n\tb: 1",
    "a date that does not exist": "name: 2020-13-45",
    "an object of Python": "name: !!python/object/apply:os.system ['true']",
    "endless nesting": "name: " + "[" * 2_000,
    "two documents": "name: a\n---\nname: b",
    "a list": "- a\n- b",
    "a text": "hello",
    "nothing": "",
}


@pytest.mark.parametrize(
    "read",
    [read_yaml, lambda path: read_env_config(path, EnvConfig), lambda path: load_preset(str(path))],
    ids=["yaml", "environment config", "preset"],
)
@pytest.mark.parametrize("text", UNREADABLE.values(), ids=list(UNREADABLE))
def test_text_that_is_no_mapping_is_named_with_its_file(tmp_path: Path, text: str, read: Any):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(DataError) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}: ")


def test_malformed_yaml_is_named_with_its_line(tmp_path: Path):
    path = tmp_path / "broken.yaml"
    path.write_text("name: a\nfamily: {options: [3, 4}\n")
    with pytest.raises(DataError, match="line 2"):
        read_yaml(path)


def test_bytes_that_are_no_text_and_directories_are_data_errors(tmp_path: Path):
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (binary, tmp_path, tmp_path / "nowhere.yaml"):
        with pytest.raises(DataError) as refused:
            read_env_config(path, EnvConfig)
        assert str(refused.value).startswith(f"{path}: ")


def test_an_environment_config_names_file_and_field(tmp_path: Path):
    path = tmp_path / "config.yaml"
    path.write_text("sizes:\n  3: {data_ratio: 1, hole_ratio: 0.2}\n")
    with pytest.raises(ConfigError) as refused:
        read_env_config(path, BoardsConfig)
    assert str(refused.value).startswith(f"{path}: sizes.3.wait_ratio: Field required")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stages=5", ("stages", 5)),
        ("trl.learning_rate=1e-4", ("trl.learning_rate", 1e-4)),
        ("trl.learning_rate=-2E+3", ("trl.learning_rate", -2000.0)),
        ("trl.beta=.5e1", ("trl.beta", 5.0)),
        ("trl.beta=0.0", ("trl.beta", 0.0)),
        ("trl.bf16=false", ("trl.bf16", False)),
        ("model=~/models/a=b", ("model", "~/models/a=b")),
        ("description=", ("description", None)),
        ("description='12'", ("description", "12")),
        ("family.options.map_sizes=[3, 4]", ("family.options.map_sizes", [3, 4])),
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


def test_a_preset_may_pay_for_partial_progress(file: Path):
    assert load_preset("tiny").rewards.weights == {"format": 0.0, "valid": 1.0, "optimal": 0.25}
    paid = load_preset(
        changed(file, "model: tiny", "model: tiny\nrewards: {arrived: 0.25}"), {"rewards.legal_share": 0.1}
    )
    assert paid.rewards.weights == {
        "format": 0.0,
        "valid": 1.0,
        "optimal": 0.5,
        "arrived": 0.25,
        "legal_share": 0.1,
    }


def test_a_learning_rate_without_a_point_is_a_number_in_a_file_too(file: Path):
    preset = load_preset(changed(file, "model: tiny", "model: tiny\ntrl: {learning_rate: 1e-4, beta: 2e-2}"))
    assert preset.trl == {"learning_rate": 1e-4, "beta": 0.02}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("stagse", 3, "stagse: Extra inputs are not permitted"),
        ("stages", 0, "stages: Input should be greater than or equal to 1"),
        ("stages.more", 3, "--set stages.more: 'stages' is a value, not a group of fields"),
        ("trl.learning_rat", 3, "did you mean 'learning_rate'?"),
        ("trl", None, "trl: Input should be a valid dictionary"),
        ("default_config.sizes.3.data_ratio", 0.9, "data_ratio sums to"),
        ("default_config.sizes.three.data_ratio", 0.0, "default_config.sizes: names"),
    ],
)
def test_an_override_that_fits_nowhere_is_refused(key: str, value: object, expected: str):
    assert expected in complaint("micro", {key: value})


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        (
            "qwen3-4b",
            {"max_answer_tokens": 20_000},
            r"max_answer_tokens: 20000 .* of about \d+ exceed engine.max_model_len, 12288; lower the one",
        ),
        (
            "qwen3-4b",
            {"engineer.max_tokens": 11_000},
            "engineer.max_tokens: 11000 tokens and a prompt of about 2000 exceed engine.max_model_len, 12288",
        ),
        (
            "qwen3-4b",
            {"trl.max_completion_length": 16_000},
            r"trl.max_completion_length: 16000 .* exceed trl.vllm_max_model_length, 9216",
        ),
        (
            "qwen3-4b",
            {"max_answer_tokens": 41_000, "engine.max_model_len": None},
            "max_answer_tokens: 41000 .* exceed the model's 40960;",
        ),
        (
            "tiny",
            {"trl.max_completion_length": 1020},
            "trl.max_completion_length: 1020 .* exceed the model's 1024;",
        ),
    ],
)
def test_answers_without_room_are_refused(name: str, settings: dict[str, Any], said: str):
    assert re.search(said, complaint(name, settings))


def test_a_design_that_no_policy_writes_needs_no_room():
    load_preset("qwen3-4b", {"engineer.max_tokens": 11_000, "engineer.name": "random"})


def test_validation_holds_the_same_number_of_every_class():
    spec = ValidationSpec(grid={"wait_ratio": (0.25, 0.75), "hole_ratio": (0.2, 0.3)}, instances=3)
    space = space_of(Options(map_sizes=(3, 5)))
    parts = spec.parts(space)
    assert len(parts) == len({purpose for purpose, _, _ in parts}) == 8
    assert {count for _, _, count in parts} == {3}
    classes = [
        (name, part["hole_ratio"], part["wait_ratio"])
        for _, config, _ in parts
        for name, part in config.strata.items()
    ]
    assert sorted(classes) == sorted(
        (name, hole, wait) for name in ("3", "5") for hole in (0.2, 0.3) for wait in (0.25, 0.75)
    )
    [(purpose, config, _)] = ValidationSpec(strata=("5",)).parts(space)
    assert (purpose, config.strata["5"].model_dump()) == (
        "validation-5",
        {"data_ratio": 1.0, "hole_ratio": 0.25, "wait_ratio": 0.5},
    )


def test_a_preset_is_not_taken_for_an_environment_config():
    with pytest.raises(
        ConfigError,
        match=r"tiny.yaml: is a preset, not an environment config; give a file that holds its default_config",
    ):
        read_env_config(PRESETS / "tiny.yaml", EnvConfig)
