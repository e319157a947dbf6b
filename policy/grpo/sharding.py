"""What each GPU holds of a training state, and the size of an optimizer's state. Imports without torch."""

from typing import Self

from pydantic import Field

from envgen.frozen import Frozen
from policy.grpo.train_spec import TrainingSettings, launch_fields, process_count

_QUANTISED = 1 + 4 / 256
"""Bytes of an 8-bit value with its share of a float32 scale for 256 of them (2110.02861)."""
_VALUES = {
    "adamw_8bit": 2 * _QUANTISED,
    "adamw_bnb_8bit": 2 * _QUANTISED,
    "paged_adamw_8bit": 2 * _QUANTISED,
    "lion_8bit": _QUANTISED,
    "paged_lion_8bit": _QUANTISED,
    "paged_adamw_32bit": 8,
    "lion_32bit": 4,
    "paged_lion_32bit": 4,
    "rmsprop": 4,
    "adafactor": 0,
    "sgd": 0,
}
"""Optimizer -> bytes of its state for each weight; adafactor's row and column sums are too few to count."""
_BITSANDBYTES_8BIT = frozenset(name for name in _VALUES if name.endswith("_8bit"))
DEFAULT_OPTIMIZER = "adamw_torch_fused"


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
        config, processes = launch_fields(training.launch), process_count(training)
        kind = str(config.get("distributed_type", "NO"))
        deepspeed = kind == "DEEPSPEED"
        stage = (
            int((config.get("deepspeed_config") or {}).get("zero_stage", 2))
            if deepspeed
            else 3
            if kind == "FSDP"
            else 0
        )
        weights, gradients, optimizer = (processes if stage >= least else 1 for least in (3, 2, 1))
        return cls(
            processes=processes,
            weights=weights,
            gradients=gradients,
            optimizer=optimizer,
            deepspeed=deepspeed,
            fsdp=kind == "FSDP",
        )


def optimizer_bytes(optimizer: str | None, trained: int, embedding: int, value_bytes: int) -> float:
    """Bytes of the state of an optimizer for `trained` weights, of which `embedding` are an input embedding.

    AdamW keeps two values for each weight in the precision of the weight (`value_bytes`); what is not known
    is counted as AdamW. For bitsandbytes' 8-bit optimizers transformers' trainer leaves the embedding at 32
    bits.
    """
    name = optimizer or DEFAULT_OPTIMIZER
    each = _VALUES.get(name, 2 * value_bytes)
    if name not in _BITSANDBYTES_8BIT:
        return trained * each
    return (trained - embedding) * each + embedding * (8 if "adamw" in name else 4)
