"""What the training child is told, and which of TRL's options a preset may set. Imports without torch."""

import ast
import difflib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from envgen.errors import ConfigError
from envgen.problem import MAX_SIZE, MIN_SIZE
from policy.rewards import RewardWeights

TRAIN_LOG_COLUMNS = {
    "step": "int32",
    "reward": "float64",
    "valid": "float64",
    "optimal": "float64",
    "zero_variance": "float64",
    "entropy": "float64",
    "clipped": "float64",
    "loss": "float64",
    "completion_tokens": "int32",
    "seconds": "float64",
    **{f"{column}_{size}": "float64" for size in range(MIN_SIZE, MAX_SIZE + 1) for column in ("advantage", "zero_variance", "answers")},
}
"""Columns of `train_log.parquet`, one row a step: mean reward, shares of valid and optimal answers, share of groups
whose rewards are all equal, mean token entropy, share of truncated answers, loss, tokens generated, wall time; for each
map size the mean absolute advantage of its answers and the share of them in groups whose rewards are all equal (both
empty without answers), and how many answers these were."""

RESERVED_OPTIONS = frozenset({"output_dir", "seed", "reward_weights", "temperature", "top_p", "top_k", "min_p", "report_to", "resume_from_checkpoint"})
"""Options that envwright sets itself: paths, seeds, rewards, and sampling, which is locked in training."""

DEFAULTS = {"num_generations": 8, "max_completion_length": 512, "scale_rewards": "group"}
"""Options that the pilot needs too, so that they are given to the trainer even where a preset leaves them out."""
_SMALLEST = {"num_generations": 2, "max_completion_length": 1}

_OPTION_SOURCES = (("trl", "trainer/base_config.py"), ("trl", "trainer/grpo_config.py"), ("transformers", "training_args.py"))


class TrainSpec(BaseModel):
    """One stage of GRPO."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    parent: str
    """Checkpoint directory or hub id to start from."""
    data: Path
    """Training instances."""
    output: Path
    """Stage directory: receives `checkpoint/` and `train_log.parquet`."""
    work: Path
    """Trainer checkpoints and other leftovers of this stage."""
    rewards: RewardWeights
    trl: dict[str, Any]
    """Options of `trl.GRPOConfig` under their own names."""
    seed: int
    dtype: str = "auto"


def group_size(options: dict[str, Any]) -> int:
    """Answers to each prompt under these options of `trl.GRPOConfig`."""
    return int(options.get("num_generations", DEFAULTS["num_generations"]))


def answer_tokens(options: dict[str, Any]) -> int:
    """Longest answer in training under these options of `trl.GRPOConfig`."""
    return int(options.get("max_completion_length", DEFAULTS["max_completion_length"]))


def reward_scale(options: dict[str, Any]) -> str:
    """What advantages are divided by under these options of `trl.GRPOConfig`: the standard deviation of the `group`, of the `batch`, or `none`."""
    scale = options.get("scale_rewards", DEFAULTS["scale_rewards"])
    return ("group" if scale else "none") if isinstance(scale, bool) else str(scale)


def check_trl_options(options: dict[str, Any]) -> None:
    """Refuse options that the installed `GRPOConfig` does not have, or that envwright sets; raises ConfigError.

    The names are read from the sources of the installed packages, so that no check has to import torch.
    """
    known = _grpo_option_names()
    for name, least in _SMALLEST.items():
        if name in options and (not isinstance(options[name], int) or isinstance(options[name], bool) or options[name] < least):
            raise ConfigError(f"trl.{name}: {options[name]!r} is no whole number of at least {least}; give one, or leave it out for {DEFAULTS[name]}")
    for name in options:
        if name in RESERVED_OPTIONS:
            raise ConfigError(f"trl.{name}: envwright sets this option itself; remove it")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "see the documentation of trl.GRPOConfig"
            raise ConfigError(f"trl.{name}: the installed trl.GRPOConfig has no such option; {hint}")


def _grpo_option_names() -> set[str]:
    names: set[str] = set()
    for package, file in _OPTION_SOURCES:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise ConfigError(f"{package} is not installed; install envwright with its dependencies")
        source = Path(spec.origin).parent / file
        if not source.is_file():
            continue
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                names |= {item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)}
    return names
