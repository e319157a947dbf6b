"""How training is launched: its processes, and the packages it needs. Imports without torch."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from envgen.errors import ConfigError, DataError, ModelError, install
from envgen.yaml_files import read_yaml
from policy.chat.vllm_server import is_healthy
from policy.child import vllm_python
from policy.devices import VISIBLE, visible_devices
from policy.grpo.train_spec import TrainingSettings

LAUNCH = Path(__file__).parent / "accelerate"
"""Shipped configs of `accelerate launch`."""
_SERVED = "vllm_server_base_url", "vllm_server_host", "vllm_server_port"
_COLOCATED = "vllm_enable_sleep_mode", "vllm_gpu_memory_utilization", "vllm_tensor_parallel_size"
"""Options that are read in `trl.vllm_mode` colocate only; the others in mode server only."""
_HERE = "localhost", "127.0.0.1", "0.0.0.0", "::1"


def checkpoint_form(settings: TrainingSettings) -> str:
    """The form of the trainer's checkpoints: those written in one form are not read in another."""
    fields = {} if settings.launch is None else _fields(settings.launch)
    if _kind(fields) != "FSDP":
        return "plain"
    return str((fields.get("fsdp_config") or {}).get("fsdp_state_dict_type", "fsdp")).lower()


def process_count(settings: TrainingSettings) -> int:
    """Training processes; ConfigError if the launch config names none."""
    if settings.launch is None or settings.processes is not None:
        return settings.processes or 1
    try:
        if (count := int(_fields(settings.launch)["num_processes"])) < 1:
            raise ValueError(count)
        return count
    except (ValueError, KeyError, TypeError, OverflowError):
        problem = f"{launch_config(settings.launch)} names no num_processes"
        raise ConfigError(f"training.launch: {problem}; add it, or set training.processes") from None


def launch_config(name: str) -> Path:
    """The file of a config of `accelerate launch`; ConfigError if there is none."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else LAUNCH / f"{name}.yaml"
    if not path.is_file():
        choices = f"the shipped ones are {_shipped()}, or give the path of a YAML file"
        raise ConfigError(f"training.launch: {name!r} is no config of accelerate launch; {choices}")
    return path


def launcher(settings: TrainingSettings, options: dict[str, Any]) -> tuple[str, ...]:
    """Module and options that start the training processes; empty for one process that needs no launcher. The
    precision follows the options of `trl.GRPOConfig`, not the config of accelerate."""
    if settings.launch is None:
        return ()
    precision = "fp16" if options.get("fp16") else "no" if options.get("bf16") is False else "bf16"
    where = ("--config_file", str(launch_config(settings.launch)))
    count = str(process_count(settings))
    return ("accelerate.commands.launch", *where, "--num_processes", count, "--mixed_precision", precision)


def check_training(settings: TrainingSettings) -> None:
    """ConfigError for a launch that is impossible, or an optimizer that cannot be carried."""
    if settings.carry_optimizer and settings.lora is not None:
        problem = "true, but each stage trains a new adapter; remove it or training.lora"
        raise ConfigError(f"training.carry_optimizer: {problem}")
    if settings.launch is None:
        if settings.processes is not None:
            remedy = f"set it to one of {_shipped()}, or to the path of a YAML file"
            raise ConfigError(f"training.processes: {settings.processes} needs training.launch; {remedy}")
        return
    kind, processes = _kind(_fields(settings.launch)), process_count(settings)
    if kind == "DEEPSPEED":
        raise ConfigError(f"training.launch: {settings.launch} asks for DeepSpeed; choose fsdp2 instead")
    if (kind == "NO" and processes > 1) or (kind == "MULTI_GPU" and processes == 1):
        problem = f"{processes} does not fit training.launch {settings.launch}"
        raise ConfigError(f"training.processes: {problem}; choose one-gpu for 1, ddp or fsdp2 for more")


def missing_packages(trl: dict[str, Any]) -> list[str]:
    """Return a line for each option that needs a package which is not installed, and how to get it."""
    optimizer, needed = str(trl.get("optim", "")), list[tuple[str, str, str]]()
    if "8bit" in optimizer or optimizer.startswith("paged_") or optimizer == "lion_32bit":
        needed.append((f"trl.optim {optimizer}", "bitsandbytes", install("8bit")))
    if trl.get("use_liger_kernel"):
        needed.append(("trl.use_liger_kernel", "liger_kernel", "pip install liger-kernel"))
    return [
        f"{setting}: needs {package}, which is not installed: {how}, or change the setting"
        for setting, package, how in needed
        if find_spec(package) is None
    ]


def check_machine(trl: dict[str, Any], training: TrainingSettings) -> None:
    """ConfigError if training could not begin here for lack of a package, a vLLM server or GPUs, which are
    counted on Linux only."""
    if trl.get("use_vllm"):
        try:
            vllm_python()
        except ModelError as error:
            raise ConfigError(f"trl.use_vllm: {error}") from None
    if (server := server_address(trl)) and not is_healthy(server.rstrip("/")):
        remedy = "start `trl vllm-serve` on GPUs that do not train, and wait until it serves"
        raise ConfigError(f"trl.vllm_mode: server, but none answers at {server}; {remedy}")
    if missing := missing_packages(trl):
        raise ConfigError("; ".join(missing))
    if sys.platform != "linux":
        return
    needed, there = dict[str, int](), len(visible_devices())
    if trl.get("use_vllm") and not server:
        needed["trl.use_vllm"] = 1
    if training.launch is not None and not _fields(training.launch).get("use_cpu", False):
        # A server on this machine needs a GPU that no process trains on, unless this process does not see it.
        beside = urlsplit(server).hostname in _HERE and VISIBLE not in os.environ
        setting = f"training.launch {training.launch}{' beside the vLLM server' if beside else ''}"
        needed[setting] = process_count(training) + beside
    for setting, count in needed.items():
        if there < count:
            raise ConfigError(
                f"{setting}: needs {count} GPU{'s' if count > 1 else ''}, and {there} can be seen here"
                f" (/dev/nvidia*, {VISIBLE}); run it on a machine with that many, as by a worker of a pool"
                " there, or change the setting"
            )


def server_address(trl: dict[str, Any]) -> str:
    """Return the address of the vLLM server that generates in training; empty without one. ConfigError if no
    address is set, or two are, or vLLM would not read an option in its mode."""
    mode, (base, host, port) = trl.get("vllm_mode", "colocate"), map(trl.get, _SERVED)
    if not trl.get("use_vllm"):
        return ""
    for name in _COLOCATED if mode == "server" else _SERVED:
        if name in trl:
            raise ConfigError(f"trl.{name}: is not read in trl.vllm_mode {mode}; remove it")
    if mode == "server" and bool(base) == bool(host or port):
        problem = "conflicts with trl.vllm_server_host and _port" if base else "is missing"
        remedy = "give one address of the vLLM server, as http://localhost:8000"
        raise ConfigError(f"trl.vllm_server_base_url: {problem}; {remedy}")
    return "" if mode == "colocate" else base or f"http://{host or '0.0.0.0'}:{port or 8000}"


def memory_advice(reason: str, trl: dict[str, Any], resume: Path | None) -> str:
    """The reason, what to change so that training needs less memory, and where it continues."""
    batch, parts = trl.get("per_device_train_batch_size", 8), trl.get("gradient_accumulation_steps", 1)
    advice = (
        f"divide trl.per_device_train_batch_size (now {batch}) and multiply trl.gradient_accumulation_steps "
        f"(now {parts}) by the same number, set trl.gradient_checkpointing=true, or training.launch=fsdp2"
    )
    if trl.get("use_vllm") and trl.get("vllm_mode") != "server":
        share = trl.get("vllm_gpu_memory_utilization", 0.3)
        # vLLM's share holds its weights and no answer: only more of it helps, or shorter answers.
        advice = (
            f"raise trl.vllm_gpu_memory_utilization (now {share}) or lower trl.vllm_max_model_length"
            if "cache blocks" in reason.lower()
            else f"lower trl.vllm_gpu_memory_utilization (now {share}), or {advice}"
        )
    ways = f"None of these changes what is learned: {advice}. The same command with them {_where(resume)}"
    return f"training ran out of memory: {reason}. {ways}"


def divergence_advice(reason: str, trl: dict[str, Any], resume: Path | None) -> str:
    """Return the reason, where the same command continues, and what to change if it ends there again."""
    rate = trl.get("learning_rate", "TRL's default")
    ways = f"lower trl.learning_rate (now {rate}), trl.max_grad_norm or the rewards, or set"
    again = f"The same command {_where(resume)}; if it stops there again, {ways} training.dtype=float32"
    return f"training stopped, and nothing of it is published: {reason}. {again}"


def _where(resume: Path | None) -> str:
    return f"continues from {resume.name}" if resume else "starts this stage's training anew"


def _fields(name: str) -> dict[str, Any]:
    """The fields of a config of `accelerate launch`; ConfigError if it cannot be read."""
    path = launch_config(name)
    try:
        return read_yaml(path)
    except DataError as error:
        raise ConfigError(f"training.launch: {error}") from None


def _kind(fields: dict[str, Any]) -> str:
    """In accelerate's words: NO, MULTI_GPU, FSDP and others."""
    return str(fields.get("distributed_type", "NO"))


def _shipped() -> str:
    return ", ".join(sorted(path.stem for path in LAUNCH.glob("*.yaml")))
