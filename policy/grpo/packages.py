"""Packages that training needs beyond those that envwright is installed with. Imports without torch."""

from importlib.util import find_spec
from typing import Any

from envgen.errors import ConfigError
from policy.grpo.sharding import Sharding
from policy.grpo.train_spec import TrainingSettings

INSTALL = {
    "bitsandbytes": "pip install 'envwright[8bit]'",
    "vllm": "pip install vllm==0.31.0",
    "liger_kernel": "pip install liger-kernel",
    "deepspeed": "pip install deepspeed",
}


def missing_packages(trl: dict[str, Any], training: TrainingSettings) -> dict[str, str]:
    """Package that is not installed -> the setting that needs it."""
    optimizer = str(trl.get("optim", ""))
    needed = {
        "bitsandbytes": f"trl.optim {optimizer}"
        if "8bit" in optimizer or optimizer.startswith("paged_") or optimizer == "lion_32bit"
        else "",
        "vllm": "trl.use_vllm" if trl.get("use_vllm") else "",
        "liger_kernel": "trl.use_liger_kernel" if trl.get("use_liger_kernel") else "",
        "deepspeed": f"training.launch {training.launch}" if Sharding.of(training).deepspeed else "",
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
