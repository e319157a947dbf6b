"""Presets: those that are shipped, what a file's fields come to, mistakes, and what `--set` does."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.boards import boards_config, sample_boards
from support.public_rows import write_rows

from engineer.spec import EngineerSpec
from envgen.dataset import write_dataset
from envgen.errors import ConfigError, DataError
from envgen.mapf.space import Options, space_of
from infra.config.dotted import parse_override
from infra.config.preset import Preset, load_preset, shipped_presets
from infra.config.sets import ValidationSpec

SMALL = """
name: small
prompt_style: compact
model: tiny
instances: 10
max_answer_tokens: 40
environment:
  options: {map_sizes: [3, 4]}
default_config:
  sizes:
    3: {data_ratio: 0.5, hole_ratio: 0.2, wait_ratio: 0.5}
    4: {data_ratio: 0.5, hole_ratio: 0.2, wait_ratio: 0.5}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small preset."""
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


def test_a_preset_is_sparse_and_defaults_are_filled_in(file: Path):
    preset = load_preset(str(file))
    resolved = preset.model_dump(mode="json")
    assert (resolved["stages"], resolved["engineer"]["context"], resolved["trl"]) == (3, "V6", {})
    options = {"agents": 2, "map_sizes": [3, 4], "min_hole_ratio": 0.0, "max_hole_ratio": 0.5}
    options["max_wait_ratio"] = 1.0
    assert resolved["environment"] == {"name": "mapf-frozenlake", "options": options}
    assert resolved["rewards"] == {"format": 0.0, "valid": 1.0, "optimal": 0.5}
    assert set(resolved) == set(Preset.model_fields)


def test_validation_holds_the_same_number_of_every_class():
    grid = {"wait_ratio": (0.25, 0.75), "hole_ratio": (0.2, 0.3)}
    space = space_of(Options(map_sizes=(3, 5)))
    parts = ValidationSpec(grid=grid, instances=3).parts(space)
    assert len(parts) == len({purpose for purpose, _, _ in parts}) == 8
    assert {count for _, _, count in parts} == {3}
    strata = [stratum for _, config, _ in parts for stratum in config.strata.items()]
    classes = {(name, part["hole_ratio"], part["wait_ratio"]) for name, part in strata}
    assert classes == {*product(("3", "5"), (0.2, 0.3), (0.25, 0.75))}
    [(purpose, config, _)] = ValidationSpec(strata=("5",)).parts(space)
    middle = {"data_ratio": 1.0, "hole_ratio": 0.25, "wait_ratio": 0.5}
    assert (purpose, config.strata["5"].model_dump()) == ("validation-5", middle)


def test_a_test_set_is_other_instances_of_the_strata_and_the_grid_of_the_validation_set(file: Path):
    def drawn(**overrides: Any) -> list[tuple[str, dict[str, float], int]]:
        preset = load_preset(str(file), {"validation.instances": 3, **overrides})
        return [
            (purpose, dict(config.strata[purpose.rpartition("-")[2]]), count)
            for purpose, config, count in preset.test.like(preset.validation).parts(preset.space, "test")
        ]

    middle = {"data_ratio": 1.0, "hole_ratio": 0.25, "wait_ratio": 0.5}
    assert drawn(test={}) == [("test-3", middle, 3), ("test-4", middle, 3)]
    assert [count for _, _, count in drawn(**{"test.instances": 5})] == [5, 5]
    assert drawn(**{"test.seed": 4, "validation.strata": ["4"]}) == [("test-4", middle, 3)]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ({"instances": 5, "file": "large.parquet"}, "instances and file are set; expected at most one"),
        ({"instances": 0}, "test.instances: Input should be greater than or equal to 1 (got 0)"),
        ({"file": "none.parquet"}, "/none.parquet: no such file; check the path"),
        ({"file": "empty.parquet"}, "/empty.parquet: holds no instance; give another data set"),
        ({"file": "sums.parquet"}, "/sums.parquet: holds instances of sums; give a data set of mapf-frozen"),
        ({"file": "large.parquet"}, "/large.parquet: '9' is none of the strata 3, 4; leave its instances"),
    ],
)
def test_a_test_set_that_does_not_fit_is_refused_when_the_preset_is_loaded(file, test, expected):
    sums = load_preset("micro-sums")
    questions = sums.validation.draw(sums.task)[:1]
    write_dataset(file.parent / "sums.parquet", questions, "plain", {}, sums.environment)
    write_dataset(file.parent / "empty.parquet", [], "compact", {})
    large = sample_boards(boards_config({9: (1, 0, 0)}), 1)
    write_dataset(file.parent / "large.parquet", large, "compact", {})
    said = complaint(str(file), {"test": test})
    assert expected in said
    assert said.startswith("test")


def test_a_person_who_approves_does_not_see_a_test_set():
    said = complaint("micro", {"test": {}, "approval": "required"})
    assert "who approves proposals would see it; leave out test, or approval" in said


BETWEEN, FIRST = "\ndefault_config:\n  sizes:\n    ", "3: {data_ratio: 0.5, hole_ratio: 0.2"
BROKEN = [
    ("name: small", "name: small\nstagse: 3", "stagse: Extra inputs are not permitted (got 3)"),
    ("name: small", "name: small\nevaluation: {samples: 3}", "samples: 3 greedy answers to an instance are"),
    ("options: {map_sizes: [3, 4]}", "name: sum", "environment.name: there is no environment 'sum'; did you"),
    ("map_sizes: [3, 4]", "map_size: [3, 4]", "environment.options: map_size: Extra inputs are not"),
    (FIRST, "3: {data_ratio: 0.5, hole_ratio: 0.7", "default_config.sizes.3.hole_ratio: 0.7 is outside of"),
    (FIRST, "3: {data_ratio: 0.4, hole_ratio: 0.2", "default_config: Value error, data_ratio sums to 0.9"),
    ("map_sizes: [3, 4]", "map_sizes: [4, 3]", "environment.options: map_sizes [4, 3] must ascend"),
    ("prompt_style: compact", "prompt_style: prose", "prompt_style 'prose' is not one of board, compact"),
    (
        "}" + BETWEEN + FIRST,
        ", agents: 5}" + BETWEEN + "3: {data_ratio: 0.5, hole_ratio: 0.5",
        "map size 3: hole_ratio 0.5 leaves 5 free cells for 5 agents",
    ),
]
"""A text of the small preset, what stands there instead, and the message."""
ADDED = [
    ("validation: {grid: {depth: [1]}}", "validation.grid.depth: there is no such knob; known are hole"),
    ("rewards: {speed: 1}", "rewards.speed: mapf-frozenlake has no such term"),
    ("engineer: {context: V9}", "engineer.context: Value error, context 'V9': expected one of V1, V2, V"),
    ("engineer: {name: frontiers}", "engineer.name: there is no engineer 'frontiers'; did you mean"),
    (
        "engineer: {name: bandit, options: {temprature: 1}}",
        "engineer.options of engineer 'bandit': there is no 'temprature'; did you mean 'temperature'?",
    ),
    ("trl: {top_p: 0.9}", "trl.top_p: envwright sets this option itself; remove it"),
    ("trl: {num_train_epochs: 3}", "trl.num_train_epochs: set the preset's own 'epochs' instead"),
    ("validation: {grid: {hole_ratio: [0.2, 0.9]}}", "validation.grid.hole_ratio: 0.9 is outside of"),
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
    load_preset("qwen3-4b", {"engineer.max_tokens": 11_000, "engineer.name": "random"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trl.learning_rate=1e-4", ("trl.learning_rate", 1e-4)),
        ("trl.learning_rate=-2E+3", ("trl.learning_rate", -2000.0)),
        ("trl.bf16=false", ("trl.bf16", False)),
        ("engineer.gate=off", ("engineer.gate", "off")),
        ("model=~/models/a=b", ("model", "~/models/a=b")),
        ("description=", ("description", None)),
        ("description='12'", ("description", "12")),
        ("environment.options.map_sizes=[3, 4]", ("environment.options.map_sizes", [3, 4])),
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
    texts = ["stages=7", "trl.beta=0.5", "trl.loss_type=dapo", "engineer.context=V1"]
    texts += ["rewards.legal_share=0.1", "default_config.sizes.3.wait_ratio=0.75"]
    paid = changed(file, "model: tiny", "model: tiny\nrewards: {arrived: 0.25}")
    preset = load_preset(paid, dict(map(parse_override, texts)))
    assert (preset.stages, preset.engineer.context) == (7, "V1")
    assert preset.trl == {"beta": 0.5, "loss_type": "dapo"}
    assert [part["wait_ratio"] for part in preset.default_config.strata.values()] == [0.75, 0.5]
    assert (preset.rewards.arrived, preset.rewards.legal_share) == (0.25, 0.1)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("stages.more", 3, "--set stages.more: 'stages' is a value, not a group of fields"),
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


def test_a_random_start_is_drawn_by_the_seed():
    preset = load_preset("tiny", {"default_config": "random", "seed": 5})
    again = load_preset(preset.model_copy(update={"engineer": EngineerSpec(name="fixed")}).model_dump_json())
    assert preset.start_config == again.start_config
    preset.space.check(preset.start_config)
    drawn = (load_preset("tiny", {"default_config": "random", "seed": seed}) for seed in range(9))
    starts = [each.start_config for each in drawn]
    assert len({start.model_dump_json() for start in starts}) == 9
    shares = [share for start in starts for share in start.shares.values()]
    assert min(shares) >= 0.05 / 4 - 1e-4
    assert max(shares) > 0.4


def test_a_random_start_is_drawn_anew_until_its_rows_exist(tmp_path: Path):
    kinds = {"few": 30, "many": 300}
    asked = [(f"{kind} {n}", kind) for kind, count in kinds.items() for n in range(count)]
    rows = ({"prompt": text, "answer": "a", "kind": kind} for text, kind in asked)
    source = write_rows(tmp_path / "rows.jsonl", rows)
    options = {"source": source, "strata": {"column": "kind"}, "scorer": "exact"}
    fields = {"environment": {"name": "dataset", "options": options}, "default_config": "random"}
    fields |= {"validation": {"instances": 10}, "instances": 100, "prompt_style": "plain"}
    fields |= {"rewards": {"format": 0.0, "valid": 1.0, "optimal": 0.0}}
    for seed in range(5):
        start = load_preset("micro", {**fields, "seed": seed}).start_config
        assert start.counts(100)["few"] <= 20
    with pytest.raises(ConfigError, match=r"default_config: none of 100 random configs can be drawn; of the"):
        load_preset("micro", {**fields, "instances": 2000})
