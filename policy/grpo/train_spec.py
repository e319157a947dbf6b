"""What the training child is told, and which of TRL's options a preset may set. Imports without torch."""

import ast
import difflib
import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Optional, Union, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from envgen.errors import ConfigError
from envgen.families import FamilySpec
from envgen.frozen import Frozen
from policy.grpo.rewards import RewardWeights

CHECKPOINT, TRAIN_LOG = "checkpoint", "train_log.parquet"
"""What training writes to the directory of its stage, besides the canary."""
RESERVED_OPTIONS = frozenset(
    {
        "output_dir",
        "seed",
        "reward_weights",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "report_to",
        "resume_from_checkpoint",
    }
)
"""Options that envwright sets itself: paths, seeds, rewards, and sampling, which is locked in training."""

MEMORY_OPTIONS = frozenset(
    {
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "gradient_checkpointing",
        "gradient_checkpointing_kwargs",
        "use_liger_kernel",
        "liger_kernel_config",
        "torch_empty_cache_steps",
        "vllm_gpu_memory_utilization",
        "vllm_enable_sleep_mode",
        "vllm_max_model_length",
        "vllm_tensor_parallel_size",
        "vllm_server_base_url",
        "vllm_server_host",
        "vllm_server_port",
        "vllm_server_timeout",
        "vllm_group_port",
        "save_steps",
        "save_total_limit",
        "dataloader_num_workers",
    }
)
"""Options that decide memory, speed and what a crash costs, and what is learned only by rounding, as long as
a step and a generation have as many answers: a run may go on with others."""

DEFAULTS = {"num_generations": 8, "max_completion_length": 512, "scale_rewards": "group"}
"""Options that we read too: they are given to the trainer even if a preset leaves them out."""
_SMALLEST = {"num_generations": 2, "max_completion_length": 1}

_TRL_SOURCES = (
    ("trl", "trainer/base_config.py"),
    ("trl", "trainer/grpo_config.py"),
    ("transformers", "training_args.py"),
)
_LORA_SOURCES = (("peft", "tuners/lora/config.py"), ("peft", "config.py"))


class TrainingSettings(Frozen):
    """How the weights are held and on how many processes they are trained."""

    dtype: Literal["auto", "float32", "bfloat16"] = "float32"
    """Of the weights while they are trained. bfloat16 halves the memory, but rounds away the updates of a
    small learning rate."""
    lora: dict[str, Any] | None = None
    """Options of `peft.LoraConfig` by their own names; the adapter is merged into the stage's checkpoint."""
    launch: str | None = None
    """Config of `accelerate launch`: a shipped one (one-gpu, ddp, fsdp2, zero3, cpu), or the path of a YAML
    file. None: one process without it."""
    processes: int | None = Field(default=None, ge=1, le=1024)
    """Training processes, one a GPU; needs `launch`, whose own number is used if this is left out."""
    canary: Literal["stop", "warn"] = "stop"
    """What to do if the engine that evaluates does not have the trained weights."""
    report_to: tuple[Literal["tensorboard", "wandb"], ...] = ()
    """Where TRL also sends the figures of every step: TensorBoard's go to `logs/tensorboard` of the stage,
    those of Weights & Biases to the project `WANDB_PROJECT`, or envwright."""


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
    family: FamilySpec = FamilySpec()
    style: str
    """Of the canary's prompts."""
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


def reward_scale(options: dict[str, Any]) -> str:
    """What advantages are divided by under these options of `trl.GRPOConfig`.

    That is the standard deviation of the `group`, of the `batch`, or `none`.
    """
    scale = options.get("scale_rewards", DEFAULTS["scale_rewards"])
    return ("group" if scale else "none") if isinstance(scale, bool) else str(scale)


def check_trl_options(options: dict[str, Any]) -> None:
    """Refuse options that the installed `GRPOConfig` lacks or that envwright sets; raises ConfigError.

    The names are read from the sources of the installed packages, so that no check has to import torch.
    """
    for name, least in _SMALLEST.items():
        value = options.get(name, least)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(
                f"trl.{name}: {value!r} is no whole number of at least {least}; give one, or leave "
                f"it out for {DEFAULTS[name]}"
            )
    if "report_to" in options:
        raise ConfigError("trl.report_to: set training.report_to instead, as [tensorboard] or [wandb]")
    if reserved := sorted(RESERVED_OPTIONS & options.keys()):
        raise ConfigError(f"trl.{reserved[0]}: envwright sets this option itself; remove it")
    _check_names("trl", options, "trl.GRPOConfig", _TRL_SOURCES)


def check_lora_options(options: dict[str, Any], field: str = "training.lora") -> None:
    """The same for options of `peft.LoraConfig`."""
    _check_names(field, options, "peft.LoraConfig", _LORA_SOURCES)
    if "task_type" in options:
        raise ConfigError(f"{field}.task_type: envwright sets this option itself; remove it")


def _check_names(
    field: str, options: dict[str, Any], owner: str, sources: tuple[tuple[str, str], ...]
) -> None:
    known = _option_types(sources)
    for name, value in options.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"see the documentation of {owner}"
            raise ConfigError(f"{field}.{name}: the installed {owner} has no such option; {hint}")
        try:
            _checker(known[name]).validate_python(value)
        except ValidationError as error:
            why = error.errors()[0]["msg"]
            raise ConfigError(f"{field}.{name}: {value!r} is none of {known[name]}: {why}") from None


def _checker(annotation: str) -> TypeAdapter[Any]:
    """Checks values of an annotation; of one that names the library's own types, nothing."""
    names = {node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name)}
    if not names <= _TYPES.keys():
        return TypeAdapter(Any)
    holder = type("Option", (), {"__annotations__": {"value": annotation}})
    kind = get_type_hints(holder, localns=_TYPES)["value"]
    return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))


_TYPES = {kind.__name__: kind for kind in (bool, dict, float, int, list, str, tuple)} | {
    "Any": Any,
    "Literal": Literal,
    "Optional": Optional,
    "Union": Union,
}


@cache
def _option_types(sources: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Name -> annotation of the fields of all classes in these (package, file)."""
    found: dict[str, str] = {}
    for package, file in sources:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise ConfigError(f"{package} is not installed; install envwright with its dependencies")
        tree = ast.parse((Path(spec.origin).parent / file).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            for item in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    found.setdefault(item.target.id, ast.unparse(item.annotation))
    return found


def last_checkpoint(work: Path) -> Path | None:
    """The latest complete trainer checkpoint; the trainer's state is the last file that it writes."""
    complete = [path for path in work.glob("checkpoint-*") if _readable(path / "trainer_state.json")]
    return max(complete, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def _readable(state: Path) -> bool:
    try:
        return bool(json.loads(state.read_text()))
    except (OSError, ValueError):
        return False
