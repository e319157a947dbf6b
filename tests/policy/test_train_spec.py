import dataclasses
from pathlib import Path

import pyarrow as pa
import pytest

from envgen.dataset import write_table
from envgen.errors import ConfigError, DataError
from infra.config.preset import PRESETS, load_preset
from policy.grpo.rewards import RewardWeights
from policy.grpo.train_log import TRAIN_LOG_SCHEMA, read_train_log
from policy.grpo.train_spec import (
    DEFAULTS,
    LAUNCH,
    RESERVED_OPTIONS,
    TRAIN_LOG_COLUMNS,
    TrainingSettings,
    TrainSpec,
    check_training,
    check_trl_options,
    launch_config,
    launcher,
    reward_scale,
)

KNOWN = [
    "learning_rate",
    "beta",
    "loss_type",
    "num_generations",
    "max_completion_length",
    "per_device_train_batch_size",
    "bf16",
    "use_vllm",
    "save_steps",
]


@pytest.mark.parametrize("name", KNOWN)
def test_an_option_of_the_installed_trainer_is_accepted(name: str):
    check_trl_options({name: 2})


def test_no_options_are_fine():
    check_trl_options({})


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("learning_rte", "learning_rate"),
        ("num_generation", "num_generations"),
        ("Beta", "beta"),
        ("max_completion_len", "max_completion_length"),
    ],
)
def test_a_misspelt_option_is_answered_with_the_nearest(wrong: str, near: str):
    with pytest.raises(ConfigError, match=f"trl.{wrong}: .*did you mean '{near}'"):
        check_trl_options({"beta": 0.0, wrong: 1})


@pytest.mark.parametrize("name", ["qqqqqqqq", "", "__class__", "_VALID_DICT_FIELDS"])
def test_an_option_that_resembles_none_is_refused(name: str):
    with pytest.raises(ConfigError, match=r"has no such option"):
        check_trl_options({name: 1})


@pytest.mark.parametrize("name", sorted(RESERVED_OPTIONS))
def test_an_option_that_envwright_sets_is_refused(name: str):
    with pytest.raises(ConfigError, match=f"trl.{name}: envwright sets this option itself"):
        check_trl_options({name: 1})


def test_sampling_seeds_paths_and_rewards_are_out_of_reach():
    assert {
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "output_dir",
        "reward_weights",
    } <= RESERVED_OPTIONS


def test_the_names_read_from_the_sources_are_those_of_the_class():
    from trl import GRPOConfig  # late: it brings torch with it

    names = {field.name for field in dataclasses.fields(GRPOConfig)}
    assert set(KNOWN) <= names
    check_trl_options(dict.fromkeys(names - RESERVED_OPTIONS, 2))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_generations", None),
        ("num_generations", 1),
        ("max_completion_length", 2.5),
        ("max_completion_length", True),
    ],
)
def test_a_group_or_an_answer_of_no_size_is_refused(name: str, value: object):
    with pytest.raises(ConfigError, match=f"trl.{name}: {value} is no whole number of at least"):
        check_trl_options({name: value})


def test_what_the_pilot_assumes_is_what_the_installed_trainer_would_do():
    from trl import GRPOConfig

    assert {
        field.name: field.default for field in dataclasses.fields(GRPOConfig) if field.name in DEFAULTS
    } == DEFAULTS
    scales = [
        reward_scale(options)
        for options in ({}, {"scale_rewards": False}, {"scale_rewards": True}, {"scale_rewards": "batch"})
    ]
    assert scales == ["group", "none", "group", "batch"]


def test_a_spec_survives_its_file():
    spec = TrainSpec(
        parent="tiny",
        data=Path("a"),
        output=Path("b"),
        work=Path("c"),
        style="compact",
        rewards=RewardWeights(format=0.1),
        trl={"beta": 0.0, "bf16": False},
        seed=3,
    )
    assert TrainSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize("preset", sorted(p.stem for p in PRESETS.glob("*.yaml")))
def test_options_of_shipped_presets_have_the_types_that_the_trainer_wants(preset: str):
    numbers = {
        "learning_rate",
        "beta",
        "num_generations",
        "max_completion_length",
        "per_device_train_batch_size",
        "save_steps",
        "warmup_steps",
    }
    options = load_preset(preset).trl
    assert all(type(value) in (int, float) for name, value in options.items() if name in numbers)


def test_a_training_log_is_read_back_by_column(tmp_path: Path):
    rows = [dict.fromkeys(TRAIN_LOG_COLUMNS, index) | {"entropy": None, "strata": []} for index in range(3)]
    write_table(tmp_path / "log.parquet", pa.Table.from_pylist(rows, schema=TRAIN_LOG_SCHEMA))
    log = read_train_log(tmp_path / "log.parquet")
    assert list(log) == [*TRAIN_LOG_COLUMNS, "strata"]
    assert log["step"] == [0, 1, 2]
    assert log["entropy"] == [None] * 3
    with pytest.raises(DataError, match="no such file"):
        read_train_log(tmp_path / "nowhere.parquet")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"launch": "dpd"},
            (
                "training.launch: 'dpd' is no config of accelerate launch; the shipped ones are cpu, ddp,"
                " fsdp2, one-gpu, zero3"
            ),
        ),
        ({"processes": 2}, "training.processes: 2 needs training.launch"),
        (
            {"launch": "one-gpu", "processes": 4},
            "training.processes: 4, but training.launch one-gpu starts one",
        ),
        ({"launch": "ddp", "processes": 1}, "training.processes: 1, but training.launch ddp is for several"),
        (
            {"lora": {"task_type": "CAUSAL_LM"}},
            "training.lora.task_type: envwright sets this option itself; remove it",
        ),
        (
            {"lora": {"rr": 2}},
            "training.lora.rr: the installed peft.LoraConfig has no such option; did you mean 'r'?",
        ),
    ],
)
def test_settings_that_cannot_be_launched_are_refused(settings: dict, message: str):
    with pytest.raises(ConfigError) as refusal:
        check_training(TrainingSettings.model_validate(settings))
    assert message in str(refusal.value)


@pytest.mark.parametrize("config", sorted(path.stem for path in LAUNCH.glob("*.yaml")))
def test_shipped_launch_configs_are_read_by_accelerate(config: str):
    from accelerate.commands.config.config_args import load_config_from_file

    check_training(
        TrainingSettings(
            launch=config,
            processes=1 if config == "one-gpu" else 4,
            lora={"r": 8, "target_modules": "all-linear"},
        )
    )
    assert load_config_from_file(str(launch_config(config))).num_processes >= 1


@pytest.mark.parametrize(
    ("options", "precision"),
    [
        ({}, "bf16"),
        ({"bf16": True}, "bf16"),
        ({"bf16": False}, "no"),
        ({"fp16": True, "bf16": False}, "fp16"),
    ],
)
def test_the_launcher_is_told_the_precision_that_the_trainer_is_told(options: dict, precision: str):
    assert launcher(TrainingSettings(launch="ddp"), options)[-2:] == ("--mixed_precision", precision)
    assert launcher(TrainingSettings(), options) == ()
