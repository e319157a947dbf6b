"""How large a causal language model is, of any architecture that transformers has.

Imports without torch: a child process counts.
"""

import json
import subprocess
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from envgen.errors import ModelError
from envgen.frozen import Frozen
from policy.checkpoints import resolve_model
from policy.child import start_child

CONFIGS = Path(__file__).with_name("configs.json")
"""Hub id -> the fields of its public `config.json` that decide its size; counted without network."""


class ModelSize(Frozen):
    """What memory depends on."""

    parameters: int = Field(ge=1)
    """Weights; a matrix that is both embedding and LM head counts once."""
    embedding: int = Field(ge=0)
    """Weights of the input embedding."""
    adapters: int | None = Field(ge=1)
    """Weights of the LoRA adapters; None: all weights are trained."""
    cached: int = Field(ge=0)
    """Numbers that a token leaves in the KV cache: 2 x layers x KV heads x head dimension, as if each layer
    attended to all tokens."""
    vocab_size: int = Field(ge=1)
    dtype: Literal["float32", "bfloat16", "float16"]
    """Of the weights at the hub or in the checkpoint; float32 if that is not said."""

    @property
    def trained(self) -> int:
        """Weights that are trained."""
        return self.parameters if self.adapters is None else self.adapters


class SizeRequest(Frozen):
    """What the child is asked."""

    source: str
    """Checkpoint directory or hub id."""
    config: dict[str, Any] | None
    """Fields of the config, where they are known without `source`."""
    lora: dict[str, Any] | None
    """Options of `peft.LoraConfig`."""


def model_size(model: str, lora: dict[str, Any] | None = None) -> ModelSize:
    """The size of `tiny`, a checkpoint or a hub id, with adapters under these options of `peft.LoraConfig`.

    Takes some seconds: a child process builds the model without memory for its weights. ModelError if the
    config is not there or cannot be fetched, is no causal language model's, or has no maps that the adapters
    name.
    """
    known = _known().get(model)
    request = SizeRequest(source=model if known else resolve_model(model), config=known, lora=lora)
    child = start_child(
        "policy.grpo.size_child",
        [request.model_dump_json()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    answer, errors = child.communicate()
    if child.returncode:
        reason = (errors.strip().splitlines() or ["it said nothing"])[-1]
        hint = (
            ""
            if known or Path(request.source).is_dir()
            else f"; known without network are {', '.join(_known())}, or give a directory"
        )
        raise ModelError(f"{model}: its weights cannot be counted: {reason}{hint}")
    return ModelSize.model_validate_json(answer.splitlines()[-1])


def known_positions(model: str) -> int | None:
    """Longest sequence of a model in tokens, prompt and answer, without asking the hub; None if not known.

    Raises ModelError for a path without a checkpoint.
    """
    if known := _known().get(model):
        return known["max_position_embeddings"]
    try:
        length = json.loads((Path(resolve_model(model)) / "config.json").read_bytes()).get(
            "max_position_embeddings"
        )
    except (OSError, ValueError, AttributeError):
        return None
    return length if isinstance(length, int) and length > 0 else None


def _known() -> dict[str, dict[str, Any]]:
    return json.loads(CONFIGS.read_text(encoding="utf-8"))
