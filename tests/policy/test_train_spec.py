"""Options of the trainer, launch configs and the packages they need, checked before anything is computed."""

import dataclasses
import re
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from support.presets import EVERY

from envgen.dataset import write_table
from envgen.errors import ConfigError, DataError
from infra.config.preset import load_preset
from policy.grpo.launch import (
    LAUNCH,
    Sharding,
    check_devices,
    check_packages,
    check_training,
    launch_config,
    launcher,
    missing_packages,
)
from policy.grpo.train_log import TRAIN_LOG_SCHEMA, read_train_log
from policy.grpo.train_spec import (
    DEFAULTS,
    RESERVED_OPTIONS,
    TrainingSettings,
    check_trl_options,
)


@pytest.mark.parametrize("name", ["qqqqqqqq", "", "__class__", "_VALID_DICT_FIELDS"])
def test_an_option_that_resembles_none_is_refused(name: str):
    with pytest.raises(ConfigError, match=r"has no such option"):
        check_trl_options({name: 1})


@pytest.mark.parametrize(
    "name", ["temperature", "top_p", "top_k", "min_p", "seed", "output_dir", "reward_weights"]
)
def test_sampling_seeds_paths_and_rewards_are_out_of_reach(name: str):
    with pytest.raises(ConfigError, match=f"trl.{name}: envwright sets this option itself"):
        check_trl_options({name: 1})


def test_the_names_read_from_the_sources_are_those_of_the_class():
    from trl import GRPOConfig  # late: it brings torch with it

    fields = {field.name: field.default for field in dataclasses.fields(GRPOConfig)}
    assert {"learning_rate", "beta", "num_generations", "use_vllm", "save_steps"} <= fields.keys()
    defaults = {name: value for name, value in fields.items() if value is not dataclasses.MISSING}
    check_trl_options({name: value for name, value in defaults.items() if name not in RESERVED_OPTIONS})
    check_trl_options({})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", "abc"),
        ("learning_rate", float("nan")),
        ("learning_rate", float("inf")),
        ("learning_rate", [1e-6]),
        ("beta", None),
        ("save_steps", "often"),
        ("use_vllm", "perhaps"),
        ("loss_type", 3),
    ],
)
def test_a_value_of_another_type_is_refused_before_anything_is_paid_for(name: str, value: object):
    with pytest.raises(ConfigError, match=f"trl.{name}: .* is none of "):
        check_trl_options({name: value})


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


def test_the_defaults_are_what_the_installed_trainer_would_do():
    from trl import GRPOConfig

    theirs = {field.name: field.default for field in dataclasses.fields(GRPOConfig)}
    assert theirs | DEFAULTS == theirs


@pytest.mark.parametrize("preset", EVERY)
def test_options_of_shipped_presets_have_the_types_that_the_trainer_wants(preset: str):
    numbers = {"learning_rate", "beta", "num_generations", "max_completion_length", "save_steps"}
    numbers |= {"per_device_train_batch_size", "warmup_steps"}
    options = load_preset(preset).trl
    assert all(type(value) in (int, float) for name, value in options.items() if name in numbers)


def test_a_training_log_is_read_back_by_column(tmp_path: Path):
    rows = [dict.fromkeys(TRAIN_LOG_SCHEMA.names, n) | {"entropy": None, "strata": []} for n in range(3)]
    write_table(tmp_path / "log.parquet", pa.Table.from_pylist(rows, schema=TRAIN_LOG_SCHEMA))
    log = read_train_log(tmp_path / "log.parquet")
    assert list(log) == TRAIN_LOG_SCHEMA.names
    assert log["step"] == [0, 1, 2]
    assert log["entropy"] == [None] * 3
    with pytest.raises(DataError, match="no such file"):
        read_train_log(tmp_path / "nowhere.parquet")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"launch": "dpd"},
            "launch: 'dpd' is no config of accelerate launch; the shipped ones are cpu, ddp, fs",
        ),
        ({"processes": 2}, "processes: 2 needs training.launch"),
        ({"launch": "one-gpu", "processes": 4}, "processes: 4, but training.launch one-gpu starts one"),
        ({"launch": "ddp", "processes": 1}, "processes: 1, but training.launch ddp is for several"),
        (
            {"lora": {"task_type": "CAUSAL_LM"}},
            "lora.task_type: envwright sets this option itself; remove it",
        ),
        ({"lora": {"rr": 2}}, "lora.rr: the installed peft.LoraConfig has no such option; did you mean 'r'?"),
    ],
)
def test_settings_that_cannot_be_launched_are_refused(settings: dict, message: str):
    with pytest.raises(ConfigError) as refusal:
        check_training(TrainingSettings.model_validate(settings))
    assert f"training.{message}" in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00", "not readable as YAML: 'utf-8' codec"),
        (b"a: [", "not readable as YAML"),
        (b"- a", "holds list, expected a mapping"),
        (b"distributed_type: DEEPSPEED", "names no num_processes"),
        (b"num_processes: .inf", "names no num_processes"),
        (b"num_processes: 0", "names no num_processes"),
        (
            b"distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: [3]",
            "deepspeed_config.zero_stage is no whole number; give 0, 1, 2 or 3",
        ),
    ],
)
def test_a_damaged_launch_config_is_one_message(content: bytes, message: str, tmp_path: Path):
    (tmp_path / "mine.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=rf"training.launch: .*mine.yaml.*{re.escape(message)}"):
        Sharding.of(TrainingSettings(launch=str(tmp_path / "mine.yaml")))


@pytest.mark.parametrize("config", sorted(path.stem for path in LAUNCH.glob("*.yaml")))
def test_shipped_launch_configs_are_read_by_accelerate(config: str):
    from accelerate.commands.config.config_args import load_config_from_file

    processes, lora = 1 if config == "one-gpu" else 4, {"r": 8, "target_modules": "all-linear"}
    check_training(TrainingSettings(launch=config, processes=processes, lora=lora))
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


def test_what_is_not_installed_is_named_with_its_setting_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    # Somebody may have them installed.
    monkeypatch.setattr("policy.grpo.launch.find_spec", lambda name: None)
    with pytest.raises(ConfigError) as refusal:
        check_packages(
            {"use_vllm": True, "optim": "paged_adamw_8bit"},
            TrainingSettings(launch="zero3", report_to=("tensorboard", "wandb")),
        )
    for setting, needed in (
        ("trl.use_vllm", "vllm, which is not installed: pip install -c constraints-vllm.txt"),
        (
            "trl.optim paged_adamw_8bit",
            "bitsandbytes, which is not installed: pip install -c constraints.txt -e '.[8bit]'",
        ),
        ("training.launch zero3", "deepspeed, which is not installed"),
        (
            "training.report_to tensorboard",
            "tensorboard, which is not installed: pip install -c constraints.txt -e '.[tensorboard]'",
        ),
        ("training.report_to wandb", "wandb, which is not installed: pip install wandb"),
    ):
        assert f"{setting}: needs {needed}" in str(refusal.value)


def test_where_a_training_reports_to_is_a_field_of_the_preset():
    assert load_preset("micro").training.report_to == ()
    chosen = load_preset("micro", {"training.report_to": ["tensorboard"]})
    assert chosen.training.report_to == ("tensorboard",)
    with pytest.raises(ConfigError, match=r"training\.report_to\.0.*tensorbord"):
        load_preset("micro", {"training.report_to": ["tensorbord"]})
    with pytest.raises(ConfigError, match=r"trl\.report_to: set training\.report_to instead"):
        check_trl_options({"report_to": "wandb"})


@pytest.mark.skipif(sys.platform != "linux", reason="GPUs are counted on Linux")
def test_settings_for_more_gpus_than_there_are_name_the_setting_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    colocated = {"use_vllm": True}
    with pytest.raises(ConfigError, match=r"trl\.use_vllm: needs 1 GPU, and 0 can be seen.*of a pool"):
        check_devices(colocated, TrainingSettings())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(ConfigError, match=r"training\.launch zero3: needs 4 GPUs, and 2 can be seen here"):
        check_devices(colocated, TrainingSettings(launch="zero3", processes=4))
    check_devices(colocated, TrainingSettings(launch="ddp", processes=2))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    check_devices(colocated | {"vllm_mode": "server"}, TrainingSettings(launch="cpu"))


@pytest.mark.parametrize("launch", [None, "one-gpu", "ddp", "fsdp2", "cpu"])
def test_what_every_installation_has_is_enough_for_the_other_launch_configs(launch: str | None):
    options = {"optim": "adamw_torch_fused", "use_liger_kernel": False}
    assert missing_packages(options, TrainingSettings(launch=launch)) == {}
