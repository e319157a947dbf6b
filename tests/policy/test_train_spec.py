"""Options of the trainer, launch configs and the packages they need, checked before anything is computed."""

import dataclasses
import re
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.presets import EVERY

from envgen.errors import ConfigError
from infra.config.preset import PRESETS, load_preset
from policy.grpo.check import CheckSpec, check, grpo_arguments
from policy.grpo.launch import LAUNCH, check_machine, check_training, launch_config, launcher
from policy.grpo.train_spec import CHOICES, DEFAULTS, TrainingSettings, check_trl_options, deciding_options

RESERVED = ["report_to", "seed", "output_dir", "reward_weights", "eval_strategy", "remove_unused_columns"]
RESERVED += ["logging_steps", "logging_strategy"]
SAMPLING = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "generation_kwargs"]
NO_SIZES = [("num_generations", None), ("num_generations", 0), ("max_completion_length", 2.5)]
NO_SIZES += [("per_device_train_batch_size", True)]
SOURCES = ("trainer/grpo_trainer.py", "generation/vllm_generation.py")
REFUSED = [
    *((name, 1, "envwright sets this option itself; remove it$") for name in RESERVED),
    *((name, 1, "envwright sets .*; remove it, as the loss takes") for name in SAMPLING),
    ("vllm_structured_outputs_regex", "a", "envwright sets .*; remove it, as the loss takes"),
    ("chat_template_kwargs", {"enable_thinking": False}, "set the preset's own 'chat_template_kwargs'"),
    ("hub_token", "hf_secret", ".* set HF_TOKEN"),
    ("save_steps", 10, "set the preset's own 'training.save_minutes' instead"),
    *((name, "bogus", "'bogus' is no value for training; give ") for name in CHOICES),
    ("scale_rewards", False, "False is no value for training; give 'group' or 'batch' or 'none'"),
    *((name, n, f"{n} is no whole number of at least") for name, n in NO_SIZES),
]


@pytest.mark.parametrize(("name", "value", "reason"), REFUSED)
def test_sampling_seeds_paths_rewards_tokens_and_no_sizes_are_refused(name: str, value: object, reason: str):
    with pytest.raises(ConfigError, match=rf"trl\.{name}: {reason}") as refused:
        check_trl_options({name: value})
    assert "hf_secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trl": {"lerning_rate": 1}}, "trl.lerning_rate: .* no such option; did you mean 'learning_rate'"),
        ({"trl": {"__class__": 1}}, "trl.__class__: .* no such option"),
        ({"trl": {"learning_rate": "abc"}}, "trl.learning_rate: 'abc' is no value"),
        ({"trl": {"learning_rate": float("nan")}}, "trl.learning_rate: nan is no value"),
        ({"trl": {"learning_rate": -1.0}}, "trl: Invalid learning rate: -1.0"),
        ({"trl": {"beta": None}}, "trl.beta: None is no value"),
        ({"trl": {"loss_type": 3}}, "trl.loss_type: 3 is no value"),
        ({"trl": {"optim": "bogus"}}, "trl: bogus is not a valid OptimizerNames"),
        ({"trl": {"optim_args": "bogus"}}, "trl: not enough values"),
        ({"trl": {"adam_beta1": 2.0}}, "trl: Invalid beta parameter at index 0: 2.0"),
        ({"trl": {"lr_scheduler_type": "bogus"}}, "trl: bogus is not a valid SchedulerType"),
        ({"trl": {"lr_scheduler_kwargs": {"bogus": 1}}}, "trl: .* unexpected keyword argument 'bogus'"),
        ({"trl": {"num_generations": 7}}, "trl.num_generations: 7: .* divisible"),
        ({"trl": {"generation_batch_size": 12}}, "trl.generation_batch_size: 12: .* divisible"),
        ({"trl": {}, "lora": {"rr": 2}}, "lora.rr: .* no such option; did you mean 'r'"),
        ({"trl": {}, "lora": {"rank": 8}}, "lora.rank: .* no such option"),
        ({"trl": {}, "lora": {"task_type": "x"}}, "lora.task_type: 'x'"),
        ({"trl": {}, "instances": 0}, "instances: 0 are fewer than the 1 prompts answered together"),
    ],
)
def test_what_the_installed_libraries_refuse_is_named_with_its_field(options: dict, said: str):
    with pytest.raises(ConfigError, match=said):
        check(CheckSpec.model_validate({"instances": 9, **options}))


def test_the_choices_are_those_of_the_installed_trainer():
    spec = find_spec("trl")
    assert spec
    folder = Path(str(spec.origin)).parent
    source = "".join((folder / name).read_text() for name in SOURCES)
    for name, choices in CHOICES.items():
        compared = re.findall(rf'(?:self|args)\.{name} (?:==|!=|in|not in) (\[.*?\]|".*?")', source)
        assert set(choices) == set(re.findall(r'"(\w+)"', " ".join(compared)))


@pytest.mark.parametrize("name", EVERY)
def test_steps_that_a_shipped_preset_states_are_those_of_the_installed_trainer(name: str):
    words = r"# (\d+) answers to (\d+) prompts: (\d+) optimizer steps a stage\."
    [stated] = re.findall(words, (PRESETS / f"{name}.yaml").read_text())
    plan = check(load_preset(name).check_spec())
    assert [plan.completions, plan.prompts, plan.optimizer_steps] == [int(number) for number in stated]


MANY = {"generation_batch_size": 32, "gradient_accumulation_steps": 3, "num_iterations": 2}


@pytest.mark.parametrize("options", [{"gradient_accumulation_steps": 2}, MANY, {"max_steps": 3}])
def test_steps_are_those_of_the_installed_trainer(options: dict, tmp_path: Path):
    from datasets import Dataset
    from trl import GRPOTrainer

    from policy.chat.transformers_model import load

    model, tokenizer = load("tiny", "float32")
    sizes = {"per_device_train_batch_size": 8, "num_generations": 4, "num_train_epochs": 1.5}
    options = {**options, **sizes, "bf16": False}
    config = grpo_arguments({**options, "output_dir": str(tmp_path), "report_to": []})
    rows = Dataset.from_list([{"prompt": [{"role": "user", "content": str(index)}]} for index in range(37)])
    with_data = {"train_dataset": rows, "processing_class": tokenizer, "args": config}
    trainer = GRPOTrainer(model, lambda completions, **_: [0.0] * len(completions), **with_data)
    *_, expected = trainer.set_initial_training_values(config, trainer.get_train_dataloader())
    assert check(CheckSpec(trl=options, instances=37)).optimizer_steps == expected


def test_a_run_may_continue_with_another_split_of_its_batches():
    settings = TrainingSettings()

    def decides(per_device: int, passes: int, **more: int) -> dict:
        options = {"per_device_train_batch_size": per_device, "gradient_accumulation_steps": passes, **more}
        return deciding_options(options, settings, 1)

    assert decides(32, 2) == decides(16, 4) == decides(16, 4, steps_per_generation=4)
    assert decides(32, 2) != decides(16, 2)
    assert decides(32, 2) != decides(32, 2, steps_per_generation=4)
    assert decides(2, 4, steps_per_generation=8) == decides(4, 2, steps_per_generation=4)
    assert decides(2, 4, steps_per_generation=4) != decides(4, 2, steps_per_generation=4)


def test_the_defaults_are_what_the_installed_trainer_would_do():
    from trl import GRPOConfig

    theirs = {field.name: field.default for field in dataclasses.fields(GRPOConfig)}
    assert theirs | DEFAULTS == theirs


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"launch": "dpd"}, "launch: 'dpd' is no config of accelerate launch; the shipped ones are cpu, dd"),
        ({"processes": 2}, "processes: 2 needs training.launch"),
        ({"launch": "one-gpu", "processes": 4}, "processes: 4 does not fit training.launch one-gpu; choose"),
        ({"launch": "ddp", "processes": 1}, "processes: 1 does not fit training.launch ddp; choose"),
        ({"lora": {}, "carry_optimizer": True}, "carry_optimizer: true, but each stage trains a new adapter"),
    ],
)
def test_settings_that_cannot_be_launched_are_refused(settings: dict, message: str):
    with pytest.raises(ConfigError) as refusal:
        check_training(TrainingSettings.model_validate(settings))
    assert f"training.{message}" in str(refusal.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [", "not readable as YAML"),
        (b"- a", "holds list, expected a mapping"),
        (b"distributed_type: FSDP", "names no num_processes"),
        (b"num_processes: 0", "names no num_processes"),
        (b"distributed_type: DEEPSPEED\nnum_processes: 2", "asks for DeepSpeed; choose fsdp2"),
    ],
)
def test_a_launch_config_that_cannot_be_used_is_one_message(content: bytes, message: str, tmp_path: Path):
    (tmp_path / "mine.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=rf"training.launch: .*mine.yaml.*{re.escape(message)}"):
        check_training(TrainingSettings(launch=str(tmp_path / "mine.yaml")))


@pytest.mark.parametrize("config", sorted(path.stem for path in LAUNCH.glob("*.yaml")))
def test_shipped_launch_configs_are_read_by_accelerate(config: str):
    from accelerate.commands.config.config_args import load_config_from_file

    processes, lora = 1 if config == "one-gpu" else 4, {"r": 8, "target_modules": "all-linear"}
    check_training(TrainingSettings(launch=config, processes=processes, lora=lora))
    fields = load_config_from_file(str(launch_config(config)))
    assert fields.num_processes >= 1
    assert config == "one-gpu" or fields.main_process_port == 0, "a free port each"


def test_the_launcher_is_told_the_precision_that_the_trainer_is_told():
    precisions = [({}, "bf16"), ({"bf16": False}, "no"), ({"fp16": True, "bf16": False}, "fp16")]
    for options, precision in precisions:
        assert launcher(TrainingSettings(launch="ddp"), options)[-2:] == ("--mixed_precision", precision)
    assert launcher(TrainingSettings(), {}) == ()


def test_what_is_not_installed_is_named_with_its_setting_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    # Somebody may have them installed.
    monkeypatch.setattr("policy.grpo.launch.find_spec", lambda name: None)
    with pytest.raises(ConfigError) as refusal:
        check_machine({"optim": "paged_adamw_8bit", "use_liger_kernel": True}, TrainingSettings())
    for setting, package, command in (
        ("trl.optim paged_adamw_8bit", "bitsandbytes", "pip install -e '.[8bit]'"),
        ("trl.use_liger_kernel", "liger_kernel", "pip install liger-kernel"),
    ):
        assert f"{setting}: needs {package}, which is not installed: {command}" in str(refusal.value)
    monkeypatch.setenv("ENVWRIGHT_VLLM_PYTHON", "nowhere")
    with pytest.raises(ConfigError, match=r"trl\.use_vllm: ENVWRIGHT_VLLM_PYTHON: nowhere is no interpreter"):
        check_machine({"use_vllm": True}, TrainingSettings())


SERVED = {"use_vllm": True, "vllm_mode": "server", "vllm_server_base_url": "http://localhost:8000"}
COLOCATED = {"vllm_mode": "colocate", "vllm_server_base_url": None}
OTHER_HOST = "trl.vllm_server_base_url: conflicts with trl.vllm_server_host"
BESIDE = "training.launch fsdp2 beside the vLLM server: needs 9 GPUs, and 8 can be seen here"


@pytest.mark.skipif(sys.platform != "linux", reason="GPUs are counted on Linux")
@pytest.mark.parametrize(
    ("options", "processes", "visible", "said"),
    [
        ({}, 6, None, ""),
        ({}, 6, "0,1,2,3,4,5", ""),
        ({"vllm_server_base_url": None, "vllm_server_host": "localhost"}, 6, None, ""),
        ({}, 8, None, BESIDE),
        ({}, 6, "0,1", "training.launch fsdp2: needs 6 GPUs, and 2 can be seen here"),
        ({"vllm_server_base_url": None}, 6, None, "trl.vllm_server_base_url: is missing; give one address"),
        ({"vllm_server_host": "x"}, 6, None, OTHER_HOST),
        ({"vllm_server_port": 8000}, 6, None, OTHER_HOST),
        ({"vllm_server_base_url": "http://localhost:1"}, 6, None, "server, but none answers at http://local"),
        ({"vllm_enable_sleep_mode": True}, 6, None, "vllm_enable_sleep_mode: is not read in trl.vllm_mode"),
        ({"vllm_mode": "colocate"}, 8, None, "vllm_server_base_url: is not read in trl.vllm_mode colocate"),
        (COLOCATED, 4, "0,1", "training.launch fsdp2: needs 4 GPUs, and 2 can be seen here"),
        (COLOCATED, 2, "0,1", ""),
        (COLOCATED, None, "", "trl.use_vllm: needs 1 GPU, and 0 can be seen here (/dev/nvidia*, CUDA"),
    ],
)
def test_gpus_have_to_suffice_and_a_vllm_server_needs_one_address_an_answer_and_a_gpu_of_its_own(
    monkeypatch: pytest.MonkeyPatch, options: dict, processes: int | None, visible: str | None, said: str
):
    monkeypatch.setenv("ENVWRIGHT_VLLM_PYTHON", sys.executable)
    monkeypatch.setattr("policy.grpo.launch.is_healthy", lambda address: address == "http://localhost:8000")
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr("policy.grpo.launch.visible_devices", lambda: [*"01234567"])
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    options = {name: value for name, value in (SERVED | options).items() if value is not None}
    training = TrainingSettings(launch="fsdp2", processes=processes) if processes else TrainingSettings()
    with nullcontext() if not said else pytest.raises(ConfigError, match=re.escape(said)):
        check_machine(options, training)
