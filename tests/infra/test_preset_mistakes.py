"""Mistakes in a preset, each named with file and field."""

import re
from pathlib import Path

import pytest
from small_preset import changed, complaint

from envgen.errors import ConfigError
from envgen.yaml_files import read_env_config
from infra.config.preset import PRESETS, shipped_presets

BROKEN = [
    ("name: small", "name: small\nstagse: 3", "stagse: Extra inputs are not permitted (got 3)"),
    ("instances: 10", "", "instances: Field required"),
    ("instances: 10", "instances: many", "instances: Input should be a valid integer"),
    (
        "options: {map_sizes: [3, 4]}",
        "- 3",
        "environment: Input should be a valid dictionary or instance of EnvironmentSpec",
    ),
    (
        "options: {map_sizes: [3, 4]}",
        "name: sum",
        "environment.name: there is no environment 'sum'; did you mean 'sums'?",
    ),
    (
        "map_sizes: [3, 4]",
        "map_size: [3, 4]",
        "environment.options: map_size: Extra inputs are not permitted",
    ),
    ("instances: 10", "instances: 0", "instances: Input should be greater than or equal to 1 (got 0)"),
    (
        "3: {data_ratio: 0.5, hole_ratio: 0.2",
        "3: {data_ratio: 0.5, hole_ratio: 0.7",
        "default_config.sizes.3.hole_ratio: 0.7 is outside of the space, 0 to 0.5; move it inside",
    ),
    (
        "3: {data_ratio: 0.5",
        "3: {data_ratio: 0.4",
        "default_config: Value error, data_ratio sums to 0.9 over all sizes",
    ),
    ("map_sizes: [3, 4]", "map_sizes: [4, 3]", "environment.options: map_sizes [4, 3] must ascend"),
    ("prompt_style: compact", "prompt_style: prose", "prompt_style 'prose' is not one of board, compact"),
    ("name: small", "name: a/b", "name: String should match pattern"),
    (
        "map_sizes: [3, 4]}\ndefault_config:\n  sizes:\n    3: {data_ratio: 0.5, hole_ratio: 0.2",
        "map_sizes: [3, 4], agents: 5}\ndefault_config:\n  sizes:\n    3: {data_ratio: 0.5, hole_ratio: 0.5",
        "map size 3: hole_ratio 0.5 leaves 5 free cells for 5 agents",
    ),
]
"""A text of the small preset, what stands there instead, and the message."""
ADDED = [
    ("engineer: {designr: base}", "engineer.designr: Extra inputs are not permitted (got 'base')"),
    (
        "validation: {grid: {depth: [1]}}",
        "validation.grid.depth: there is no such knob; known are hole_ratio, wait_ratio",
    ),
    ("rewards: {speed: 1}", "rewards.speed: mapf-frozenlake has no such term"),
    (
        "engineer: {variant: V9}",
        "engineer.variant 'V9' is not one of V1, V2, V3, V4, V5, V6, V6S, V6W, full-details, no-history",
    ),
    ("engineer: {name: oracle}", "engineer.name: there is no engineer 'oracle'; known are checkpoint, base,"),
    ("engineer: {name: frontiers}", "there is no engineer 'frontiers'; did you mean 'frontier'?"),
    (
        "engineer: {name: bandit, options: {temprature: 1}}",
        "engineer.options of engineer 'bandit': temprature: Extra inputs are not permitted (got 1)",
    ),
    (
        "engineer: {name: replay, options: {configs: nowhere/results.json}}",
        "engineer.options of engineer 'replay': configs: Value error, nowhere/results.json: no such file",
    ),
    (f"seed: {2**53}", "seed: Input should be less than 9007199254740992 (got 9007199254740992)"),
    ("epochs: .inf", "epochs: Input should be a finite number (got inf)"),
    ("rewards: {valid: -1}", "rewards.valid: Input should be greater than or equal to 0 (got -1)"),
    ("trl: {top_p: 0.9}", "trl.top_p: envwright sets this option itself; remove it"),
    ("trl: {num_train_epochs: 3}", "trl.num_train_epochs: set the preset's own 'epochs' instead"),
    (
        "validation: {grid: {hole_ratio: [0.2, 0.9]}}",
        "validation.grid.hole_ratio: 0.9 is outside of the space, 0 to 0.5; move it inside",
    ),
    ("validation: {grid: {wait_ratio: []}}", "validation.grid.wait_ratio: has no values; give one"),
]
"""A line more, and the message."""
BROKEN += [("model: tiny", f"model: tiny\n{line}", said) for line, said in ADDED]


@pytest.mark.parametrize(("old", "new", "expected"), BROKEN, ids=[case[2] for case in BROKEN])
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


MODEL_LEN = "exceed engine.max_model_len, 12288"


@pytest.mark.parametrize(
    ("name", "field", "tokens", "said"),
    [
        ("qwen3-4b", "max_answer_tokens", 20_000, f"20000 .* {MODEL_LEN}; lower max_answer_tokens"),
        ("qwen3-4b", "engineer.max_tokens", 13_000, f"13000 tokens .* {MODEL_LEN}"),
        ("qwen3-4b", "trl.max_completion_length", 16_000, ".* exceed trl.vllm_max_model_length, 9216"),
        ("tiny", "trl.max_completion_length", 1020, "1020 .* exceed the model's limit, 1024;"),
    ],
)
def test_answers_without_room_are_refused(name: str, field: str, tokens: int, said: str):
    assert re.search(f"{field}: {said}", complaint(name, {field: tokens}))


def test_a_preset_that_is_no_mapping_is_named_with_its_file(file: Path):
    file.write_text("- a\n- b")
    assert complaint(str(file)).startswith(f"{file}: ")


def test_a_preset_is_not_taken_for_an_environment_config():
    with pytest.raises(
        ConfigError,
        match=r"tiny.yaml: is a preset, not an environment config; give a file that holds its default_config",
    ):
        read_env_config(PRESETS / "tiny.yaml")
