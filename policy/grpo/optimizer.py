"""The optimizer's state (Adam's moments) that a stage leaves for the next: `training.carry_optimizer`."""

import sys
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from transformers import TrainerCallback, TrainerState

OPTIMIZER = "optimizer.pt"
"""File in the checkpoint of a stage: name of a parameter -> its state, on one CPU."""
_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


class CarryOptimizer(TrainerCallback):
    """Load the optimizer's state of the stage before into a new stage, which keeps its learning rate."""

    def __init__(self, parent: Path) -> None:
        self._file = parent / OPTIMIZER

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Called by the trainer before its first step; after a resume the optimizer has its state."""
        if state.global_step or not self._file.is_file():
            return
        model, optimizer = kwargs["model"], _unwrapped(kwargs["optimizer"])
        # Mapped: each process reads the whole and keeps its part.
        carried = torch.load(self._file, map_location="cpu", mmap=True, weights_only=True)
        groups = get_optimizer_state_dict(model, optimizer)["param_groups"]
        whole = {"state": carried, "param_groups": groups}
        set_optimizer_state_dict(model, optimizer, optim_state_dict=whole, options=_WHOLE)


def save_optimizer(trainer: Any, checkpoint: Path) -> None:
    """Write the optimizer's state into the folder of a checkpoint; every process takes part."""
    state: Any = get_optimizer_state_dict(trainer.model, _unwrapped(trainer.optimizer), options=_WHOLE)
    if trainer.accelerator.is_main_process:
        # A pickle refers to a string that it has seen, so that copies of it would be other bytes.
        parts = {
            name: {sys.intern(key): value for key, value in part.items()}
            for name, part in state["state"].items()
        }
        checkpoint.mkdir(exist_ok=True)
        torch.save(parts, checkpoint / OPTIMIZER)


def _unwrapped(optimizer: Any) -> Any:
    """PyTorch's optimizer in accelerate's."""
    return getattr(optimizer, "optimizer", optimizer)
