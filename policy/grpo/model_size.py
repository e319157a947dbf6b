"""How large a causal language model is, of any architecture that transformers has.

Imports without torch: a child process counts, `python -m policy.grpo.model_size JSON` with the arguments of
`count`, and prints a `ModelSize` as JSON.
"""

import json
import subprocess
import sys
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


def model_size(model: str, lora: dict[str, Any] | None = None) -> ModelSize:
    """The size of `tiny`, a checkpoint or a hub id, with adapters under these options of `peft.LoraConfig`.

    Takes some seconds: a child process builds the model without memory for its weights. ModelError if the
    config is not there or cannot be fetched, is no causal language model's, or has no maps that the adapters
    name.
    """
    known = _known().get(model)
    source = model if known else resolve_model(model)
    child = start_child(
        "policy.grpo.model_size",
        [json.dumps({"source": source, "config": known, "lora": lora})],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    answer, errors = child.communicate()
    if child.returncode:
        reason = (errors.strip().splitlines() or ["it said nothing"])[-1]
        if not known and not Path(source).is_dir():
            reason += f"; known without network are {', '.join(_known())}, or give a directory"
        raise ModelError(f"{model}: its weights cannot be counted: {reason}")
    return ModelSize.model_validate_json(answer.splitlines()[-1])


def count(source: str, config: dict[str, Any] | None, lora: dict[str, Any] | None) -> ModelSize:
    """The size of a model by its `config`, or that of `source`; OSError or ValueError if it cannot be built.

    On PyTorch's meta device, in the child.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    found = (
        AutoConfig.for_model(**config)
        if config
        else AutoConfig.from_pretrained(source, trust_remote_code=False)
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(found, trust_remote_code=False)
        parameters, embedding = model.num_parameters(), model.get_input_embeddings().weight.numel()
        adapters = None
        if lora is not None:
            from peft import LoraConfig, get_peft_model

            adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **lora))
            adapters = sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)
    text, dtype = found.get_text_config(), str(found.dtype or "").removeprefix("torch.")
    heads = text.num_attention_heads
    dimension = getattr(text, "head_dim", None) or text.hidden_size // heads
    cached_heads = getattr(text, "num_key_value_heads", None) or heads
    return ModelSize(
        parameters=parameters,
        embedding=embedding,
        adapters=adapters,
        cached=2 * text.num_hidden_layers * cached_heads * dimension,
        vocab_size=text.vocab_size,
        dtype=dtype if dtype in ("float32", "bfloat16", "float16") else "float32",
    )


def known_positions(model: str) -> int | None:
    """Longest sequence of a model in tokens, prompt and answer, without asking the hub; None if not known.

    Raises ModelError for a path without a checkpoint.
    """
    if known := _known().get(model):
        return known["max_position_embeddings"]
    path = Path(resolve_model(model)) / "config.json"
    try:
        length = json.loads(path.read_bytes()).get("max_position_embeddings")
    except (OSError, ValueError, AttributeError):
        return None
    return length if isinstance(length, int) and length > 0 else None


def _known() -> dict[str, dict[str, Any]]:
    return json.loads(CONFIGS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    print(count(**json.loads(sys.argv[1])).model_dump_json())
