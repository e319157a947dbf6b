"""Spec of the training child, and which of TRL's options a preset may set. Imports without torch."""

import json
from math import inf
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from envgen.errors import ConfigError
from envgen.files import write_json
from envgen.frozen import Frozen
from envgen.registry import EnvironmentSpec
from policy.grpo.rewards import RewardWeights

CHECKPOINT, TRAIN_LOG = "checkpoint", "train_log.parquet"
"""What training writes to the directory of its stage."""
_RESUMES = "resumes.json"
_FILES = "files.json"
"""File of each trainer checkpoint, written last: name of every file -> its size in bytes."""
DEFAULTS = {"num_generations": 8, "max_completion_length": 512, "scale_rewards": "group"}
"""Options that we read too: they are given to the trainer even if a preset leaves them out."""
_SET_BY_US = """
    output_dir seed reward_weights report_to resume_from_checkpoint logging_steps logging_strategy
    save_strategy save_only_model eval_strategy eval_on_start load_best_model_at_end auto_find_batch_size
    remove_unused_columns
"""
_SAMPLING = """
    temperature top_p top_k min_p repetition_penalty generation_kwargs vllm_structured_outputs_regex
"""
_REMOVE = "envwright sets this option itself; remove it"
_SECRET = "a preset is published with its run; remove it and set HF_TOKEN"
_REFUSED = {
    **dict.fromkeys(_SET_BY_US.split(), _REMOVE),
    **dict.fromkeys(
        _SAMPLING.split(),
        f"{_REMOVE}, as the loss takes answers for draws from the policy at temperature 1, without cuts and"
        " penalties",
    ),
    "hub_token": _SECRET,
    "push_to_hub_token": _SECRET,
    "num_train_epochs": "set the preset's own 'epochs' instead",
    "save_steps": "set the preset's own 'training.save_minutes' instead",
    "chat_template_kwargs": "set the preset's own 'chat_template_kwargs' instead, which training, evaluation"
    " and engineer use",
}
"""Option that a preset must not set -> what to do instead."""
_SIZES = """
    num_generations max_completion_length per_device_train_batch_size gradient_accumulation_steps
    steps_per_generation generation_batch_size
"""
"""Whole numbers of at least 1."""
CHOICES: dict[str, tuple[str, ...]] = {
    "loss_type": ("grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"),
    "importance_sampling_level": ("token", "sequence"),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "scale_rewards": ("group", "batch", "none"),
    "vllm_mode": ("colocate", "server"),
    "vllm_importance_sampling_mode": ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"),
}
"""Values of options that TRL checks only while it trains."""
_SPLITTING = """
    per_device_train_batch_size gradient_accumulation_steps steps_per_generation generation_batch_size
    gradient_checkpointing gradient_checkpointing_kwargs use_liger_kernel liger_kernel_config
    torch_empty_cache_steps dataloader_num_workers save_total_limit
    vllm_gpu_memory_utilization vllm_enable_sleep_mode vllm_max_model_length vllm_tensor_parallel_size
    vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout vllm_group_port
"""
SPLITTING = frozenset(_SPLITTING.split())
"""Options that decide memory and speed. They change the result by rounding only, as long as a step and a
generation have as many answers: a run may continue with others."""


class TrainingSettings(Frozen, use_attribute_docstrings=True):
    """How the weights are held and on how many processes they are trained."""

    dtype: Literal["auto", "float32", "bfloat16"] = "float32"
    """Of the weights while they are trained. bfloat16 halves the memory, but rounds away the updates of a
    small learning rate."""
    lora: dict[str, Any] | None = None
    """Options of `peft.LoraConfig` by their own names; the adapter is merged into the stage's checkpoint."""
    launch: str | None = None
    """Config of `accelerate launch`: a shipped one (one-gpu, ddp, fsdp2, cpu), or the path of a YAML file.
    None: one process without it."""
    processes: int | None = Field(default=None, ge=1, le=1024)
    """Training processes, one a GPU; needs `launch`, whose own number is used if this is left out."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Generated tokens of a stage: it ends with the step that reaches them. The learning rate follows
    `trl.lr_scheduler_type` over the steps of all epochs; a constant one suits better."""
    max_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds of a stage's steps: it ends with the step that reaches them."""
    save_minutes: float = Field(default=30.0, ge=0, allow_inf_nan=False)
    """Minutes between two checkpoints of the trainer, the most that a crash costs. 0: one after each step."""
    carry_optimizer: bool = False
    """Whether a stage starts from the optimizer's state (Adam's moments) of the stage before; the schedule of
    the learning rate starts anew. Each checkpoint gets larger by that state. Not with `lora`."""
    refill: float = Field(default=1.0, ge=1.0, le=16.0, allow_inf_nan=False)
    """Up to how many times the prompts of a step are answered so that groups without signal can be replaced
    by groups that have some. 1: none is replaced."""

    def is_spent(self, tokens: float, seconds: float) -> bool:
        """Whether generated tokens, or seconds of steps, have reached their limit."""
        return tokens >= (self.max_tokens or inf) or seconds >= (self.max_seconds or inf)


class TrainSpec(Frozen):
    """One stage of GRPO."""

    parent: str
    """Checkpoint directory or hub id to start from."""
    data: Path
    """Training instances."""
    output: Path
    """Stage directory: receives `checkpoint/` and `train_log.parquet`."""
    work: Path
    """Trainer checkpoints and other leftovers of this stage."""
    environment: EnvironmentSpec = EnvironmentSpec()
    style: str
    """Of the prompts of reference answers."""
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    rewards: RewardWeights
    trl: dict[str, Any]
    """Options of `trl.GRPOConfig` under their own names."""
    seed: int
    training: TrainingSettings = TrainingSettings()


def group_size(options: dict[str, Any]) -> int:
    """Answers to each prompt under these options of `trl.GRPOConfig`."""
    return int(options.get("num_generations", DEFAULTS["num_generations"]))


def answer_tokens(options: dict[str, Any]) -> int:
    """Longest answer in training under these options of `trl.GRPOConfig`."""
    return int(options.get("max_completion_length", DEFAULTS["max_completion_length"]))


def check_trl_options(options: dict[str, Any]) -> None:
    """ConfigError for options that envwright sets, or sizes that are no whole numbers. `policy.grpo.check`
    asks TRL about the rest."""
    for name, remedy in _REFUSED.items():
        if name in options:
            raise ConfigError(f"trl.{name}: {remedy}")
    for name in _SIZES.split():
        value = options.get(name, 1)
        if value is None and name not in DEFAULTS:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            problem = f"{value!r} is no whole number of at least 1"
            raise ConfigError(f"trl.{name}: {problem}; give one, or leave it out")
    for name in CHOICES.keys() & options.keys():
        if options[name] not in (choices := CHOICES[name]):
            expected = " or ".join(map(repr, choices))
            raise ConfigError(f"trl.{name}: {options[name]!r} is no value for training; give {expected}")


def deciding_options(options: dict[str, Any], settings: TrainingSettings, processes: int) -> dict[str, Any]:
    """Return what decides the result of training: the options outside `SPLITTING`, the completions a step and
    a generation, and settings. A run may continue with another split of its batches."""
    per_device = _count(options, "per_device_train_batch_size", 8)
    accumulation = _count(options, "gradient_accumulation_steps", 1)
    together = per_device * processes * _count(options, "steps_per_generation", accumulation)
    deciding = {name: value for name, value in options.items() if name not in SPLITTING}
    if options.get("loss_type") == "bnpo":
        # Its loss is divided by the tokens of a pass, not of a step.
        deciding["per_device_train_batch_size"] = per_device
    of_settings = {"max_tokens", "max_seconds", "refill", "carry_optimizer"}
    return {
        "trl": deciding,
        "answers_a_step": per_device * accumulation * processes,
        "answers_together": _count(options, "generation_batch_size", together),
        "dtype": settings.dtype,
        "lora": settings.lora,
        **settings.model_dump(include=of_settings, exclude_none=True),
    }


def _count(options: dict[str, Any], name: str, default: int) -> int:
    """Return an option of `_SIZES`; the default where it is left out or null."""
    value = options.get(name)
    return default if value is None else value


def mark_complete(checkpoint: Path) -> None:
    """Record the files of a trainer checkpoint, which is complete now."""
    write_json(checkpoint / _FILES, _sizes(checkpoint))


def last_checkpoint(work: Path) -> Path | None:
    """Return the latest trainer checkpoint whose files are all there in full; None without one."""
    latest_first = sorted(work.glob("checkpoint-*"), key=lambda path: -int(path.name.rpartition("-")[2]))
    return next(filter(_is_complete, latest_first), None)


def _is_complete(checkpoint: Path) -> bool:
    try:
        return json.loads((checkpoint / _FILES).read_bytes()) == _sizes(checkpoint)
    except (OSError, ValueError):
        return False


def _sizes(folder: Path) -> dict[str, int]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != _FILES)
    return {str(path.relative_to(folder)): path.stat().st_size for path in files}


def note_resume(work: Path, checkpoint: Path | None) -> None:
    """Record in the work folder that training continues from a checkpoint; None: it starts anew."""
    steps = [] if checkpoint is None else [*resumed_steps(work), trainer_state(checkpoint)["global_step"]]
    write_json(work / _RESUMES, sorted({step for step in steps if step <= steps[-1]}))


def resumed_steps(work: Path) -> list[int]:
    """Optimizer steps after which the training in a work folder was resumed, in order."""
    path = work / _RESUMES
    return json.loads(path.read_bytes()) if path.exists() else []


def trainer_state(checkpoint: Path) -> dict[str, Any]:
    """What the trainer recorded with a checkpoint: `global_step`, `epoch` and more."""
    return json.loads((checkpoint / "trainer_state.json").read_bytes())
