"""How training is launched: its processes, what each of them holds, and the packages it needs.

Imports without torch.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from envgen.errors import ConfigError, DataError
from envgen.extras import install
from envgen.frozen import Frozen
from envgen.yaml_files import read_yaml
from policy.devices import VISIBLE, visible_devices
from policy.grpo.train_spec import TrainingSettings, check_lora_options

LAUNCH = Path(__file__).parent / "accelerate"
"""Shipped configs of `accelerate launch`."""
NODES = "ENVWRIGHT_NODES"
"""Environment variable with the command that starts the rest of its line once on each machine that trains, as
`srun --ntasks-per-node=1`; without it one machine trains."""
_MACHINES = "SLURM_NNODES"
INSTALL = {
    "bitsandbytes": install("8bit"),
    "vllm": install("vllm"),
    "liger_kernel": "pip install liger-kernel",
    "deepspeed": "pip install deepspeed",
    "tensorboard": install("tensorboard"),
    "wandb": "pip install wandb",
}
"""Packages that training may need beyond those that envwright is installed with."""


class Sharding(Frozen):
    """Over how many GPUs the parts of the training state are split; 1: every GPU holds the whole."""

    processes: int = Field(default=1, ge=1)
    weights: int = 1
    gradients: int = 1
    optimizer: int = 1
    deepspeed: bool = False
    """DeepSpeed trains in bfloat16 and keeps a float32 copy of the weights in its optimizer (1910.02054)."""
    fsdp: bool = False

    @property
    def checkpoints(self) -> str:
        """The form of the trainer's checkpoints: what was written in one is not read in another.

        Those of DeepSpeed are not read by another number of processes either.
        """
        return f"deepspeed-{self.processes}" if self.deepspeed else "fsdp" if self.fsdp else "plain"

    @classmethod
    def of(cls, training: TrainingSettings) -> Self:
        """What the launch config says of the parts of a training state that it splits.

        FSDP and ZeRO-3 split all, ZeRO-2 not the weights, ZeRO-1 the optimizer's state only. Parts that a
        config moves to the CPU are counted as if they stayed. ConfigError if there is no such config, or it
        names no number of processes.
        """
        if training.launch is None:
            return cls()
        config, processes = _fields(training.launch), process_count(training)
        kind, stage = _kind(config), 0
        if kind == "DEEPSPEED":
            try:
                stage = int((config.get("deepspeed_config") or {}).get("zero_stage", 2))
            except (AttributeError, OverflowError, TypeError, ValueError):
                raise ConfigError(
                    f"training.launch: {launch_config(training.launch)}: deepspeed_config.zero_stage is no"
                    " whole number; give 0, 1, 2 or 3"
                ) from None
        elif kind == "FSDP":
            stage = 3
        return cls(
            processes=processes,
            weights=processes if stage >= 3 else 1,
            gradients=processes if stage >= 2 else 1,
            optimizer=processes if stage >= 1 else 1,
            deepspeed=kind == "DEEPSPEED",
            fsdp=kind == "FSDP",
        )


def process_count(settings: TrainingSettings) -> int:
    """Training processes; ConfigError if the launch config names none."""
    if settings.launch is None or settings.processes is not None:
        return settings.processes or 1
    try:
        if (count := int(_fields(settings.launch)["num_processes"])) < 1:
            raise ValueError(count)
        return count
    except (ValueError, KeyError, TypeError, OverflowError):
        raise ConfigError(
            f"training.launch: {launch_config(settings.launch)} names no num_processes; add it, or set "
            "training.processes"
        ) from None


def launch_config(name: str) -> Path:
    """The file of a config of `accelerate launch`; ConfigError if there is none."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else LAUNCH / f"{name}.yaml"
    if not path.is_file():
        raise ConfigError(
            f"training.launch: {name!r} is no config of accelerate launch; the shipped ones are "
            f"{_shipped()}, or give the path of a YAML file"
        )
    return path


def launcher(settings: TrainingSettings, options: dict[str, Any]) -> tuple[str, ...]:
    """Module and options that start the training processes; empty for one process that needs no launcher.

    The precision is that of the options of `trl.GRPOConfig`, not of the config: one says what is computed,
    the other where. ConfigError if several machines cannot have equally many processes.
    """
    if settings.launch is None:
        return ()
    precision = "fp16" if options.get("fp16") else "no" if options.get("bf16") is False else "bf16"
    where = ("--config_file", str(launch_config(settings.launch)))
    count, together = process_count(settings), machines()
    if count % together:
        raise ConfigError(
            f"training.processes: {count} cannot be shared out evenly over {together} machines ({_MACHINES});"
            " give a multiple of that"
        )
    start = ("policy.grpo.nodes", "everywhere") if together > 1 else ("accelerate.commands.launch",)
    return (*start, *where, "--num_processes", str(count), "--mixed_precision", precision)


def machines() -> int:
    """Machines that train together: SLURM_NNODES, if ENVWRIGHT_NODES says how they are reached."""
    number = os.environ.get(_MACHINES, "")
    if not os.environ.get(NODES):
        return 1
    if not (number.isdecimal() and int(number)):
        raise ConfigError(f"{_MACHINES}: {number!r} is no number of machines, which {NODES} needs; give one")
    return int(number)


def check_training(settings: TrainingSettings) -> None:
    """Refuse options that the installed `LoraConfig` lacks, or an impossible launch; raises ConfigError."""
    check_lora_options(settings.lora or {})
    if settings.launch is None:
        if settings.processes is not None:
            raise ConfigError(
                f"training.processes: {settings.processes} needs training.launch; set it to one of "
                f"{_shipped()}, or to the path of a YAML file"
            )
        return
    kind, processes = _kind(_fields(settings.launch)), process_count(settings)
    if kind == "NO" and processes > 1:
        raise ConfigError(
            f"training.processes: {processes}, but training.launch {settings.launch} starts one; choose ddp, "
            "fsdp2 or zero3, or 1"
        )
    if kind == "MULTI_GPU" and processes == 1:
        raise ConfigError(
            f"training.processes: 1, but training.launch {settings.launch} is for several; choose one-gpu, "
            "or more processes"
        )


def missing_packages(trl: dict[str, Any], training: TrainingSettings) -> dict[str, str]:
    """Package that is not installed -> the setting that needs it."""
    optimizer = str(trl.get("optim", ""))
    quantised = "8bit" in optimizer or optimizer.startswith("paged_") or optimizer == "lion_32bit"
    needed = {
        "bitsandbytes": f"trl.optim {optimizer}" if quantised else "",
        "vllm": "trl.use_vllm" if trl.get("use_vllm") else "",
        "liger_kernel": "trl.use_liger_kernel" if trl.get("use_liger_kernel") else "",
        "deepspeed": f"training.launch {training.launch}" if Sharding.of(training).deepspeed else "",
        **{package: f"training.report_to {package}" for package in training.report_to},
    }
    return {package: setting for package, setting in needed.items() if setting and find_spec(package) is None}


def check_packages(trl: dict[str, Any], training: TrainingSettings) -> None:
    """ConfigError if training could not begin, before time is spent on evaluating the base policy."""
    if missing := missing_packages(trl, training):
        lines = [
            f"{setting}: needs {package}, which is not installed: {INSTALL[package]}, or change the setting"
            for package, setting in missing.items()
        ]
        raise ConfigError("; ".join(lines))


def check_devices(trl: dict[str, Any], training: TrainingSettings) -> None:
    """ConfigError if training is set up for more GPUs than this machine has, which is told on Linux alone."""
    if sys.platform != "linux":
        return
    needed, there = dict[str, int](), len(visible_devices())
    if trl.get("use_vllm") and trl.get("vllm_mode", "colocate") == "colocate":
        needed["trl.use_vllm"] = 1
    if training.launch is not None and not _fields(training.launch).get("use_cpu", False):
        needed[f"training.launch {training.launch}"] = process_count(training) // machines()
    for setting, count in needed.items():
        if there < count:
            raise ConfigError(
                f"{setting}: needs {count} GPU{'s' if count > 1 else ''}, and {there} can be seen here"
                f" (/dev/nvidia*, {VISIBLE}); run it on a machine with that many, as by a worker of a pool"
                " there, or change the setting"
            )


def _fields(name: str) -> dict[str, Any]:
    """The fields of a config of `accelerate launch`; ConfigError if it cannot be read."""
    path = launch_config(name)
    try:
        return read_yaml(path)
    except DataError as error:
        raise ConfigError(f"training.launch: {error}") from None


def _kind(fields: dict[str, Any]) -> str:
    """In accelerate's words: NO, MULTI_GPU, FSDP, DEEPSPEED."""
    return str(fields.get("distributed_type", "NO"))


def _shipped() -> str:
    return ", ".join(sorted(path.stem for path in LAUNCH.glob("*.yaml")))
