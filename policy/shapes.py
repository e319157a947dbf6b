"""Shapes of causal language models, so that memory can be estimated without weights. Imports without torch."""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from envgen.errors import ModelError
from envgen.frozen import Frozen
from policy.checkpoints import resolve_model

SHAPES = Path(__file__).with_name("shapes.json")
"""Hub id -> shape, from the public `config.json` of each."""
_DTYPES = ("float32", "bfloat16", "float16")
_FAMILY = "qwen3"
"""The only architecture whose layers are counted here; another one has other weights in a layer."""


class ModelShape(Frozen):
    """What decides how many weights and activations a dense Qwen3 has."""

    hidden_size: int = Field(ge=1)
    layers: int = Field(ge=1)
    heads: int = Field(ge=1)
    """Of the queries; `kv_heads` are those of keys and values."""
    kv_heads: int = Field(ge=1)
    head_dim: int = Field(ge=1)
    intermediate_size: int = Field(ge=1)
    vocab_size: int = Field(ge=1)
    tied: bool
    """Whether input embedding and LM head are one matrix."""
    max_positions: int = Field(ge=1)
    """Longest sequence, prompt and answer, in tokens."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Of the weights at the hub or in the checkpoint."""

    @property
    def query_size(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all key heads together, which is that of the value heads."""
        return self.kv_heads * self.head_dim

    @property
    def linears(self) -> dict[str, tuple[int, int]]:
        """Linear maps of one layer: name -> (inputs, outputs)."""
        hidden, inner = self.hidden_size, self.intermediate_size
        return {
            "q_proj": (hidden, self.query_size),
            "k_proj": (hidden, self.kv_size),
            "v_proj": (hidden, self.kv_size),
            "o_proj": (self.query_size, hidden),
            "gate_proj": (hidden, inner),
            "up_proj": (hidden, inner),
            "down_proj": (inner, hidden),
        }

    @property
    def layer_linear_parameters(self) -> int:
        """Weights of the linear maps of one layer, which hold no biases."""
        return sum(inputs * outputs for inputs, outputs in self.linears.values())

    @property
    def embedding_parameters(self) -> int:
        """Weights of the input embedding; the LM head has as many."""
        return self.vocab_size * self.hidden_size

    @property
    def parameters(self) -> int:
        """All weights: linear maps, two norms of a layer, norms of queries and keys, the last norm, embedding and LM head."""
        layer = self.layer_linear_parameters + 2 * self.hidden_size + 2 * self.head_dim
        return self.layers * layer + self.hidden_size + self.embedding_parameters * (1 if self.tied else 2)

    @property
    def config(self) -> dict[str, Any]:
        """The shape under the names of `transformers.Qwen3Config`."""
        return {
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.intermediate_size,
            "vocab_size": self.vocab_size,
            "max_position_embeddings": self.max_positions,
            "tie_word_embeddings": self.tied,
        }

    def lora_parameters(self, options: dict[str, Any]) -> int:
        """Weights of the adapters under these options of `peft.LoraConfig`: r x (inputs + outputs) of each map adapted (2106.09685).

        `target_modules` left out means queries and values, PEFT's choice for Qwen3; `all-linear` all maps but the LM head. ModelError
        names maps that a layer does not have.
        """
        targets = options.get("target_modules") or ["q_proj", "v_proj"]
        chosen = list(self.linears) if targets == "all-linear" else [targets] if isinstance(targets, str) else list(targets)
        if unknown := [name for name in chosen if name not in self.linears]:
            raise ModelError(f"training.lora.target_modules: {unknown[0]!r} is no linear map of this model; choose of {', '.join(self.linears)}, or all-linear")
        return self.layers * int(options.get("r", 8)) * sum(sum(self.linears[name]) for name in chosen)


class ArchitectureError(ModelError):
    """A model can be run, and its memory is not estimated."""


def model_shape(model: str) -> ModelShape:
    """The shape of `tiny`, of a checkpoint directory, or of a hub id; ids in `SHAPES` need no network.

    ArchitectureError for another one than Qwen3; ModelError says what to do.
    """
    known = json.loads(SHAPES.read_text(encoding="utf-8"))
    if model in known:
        return ModelShape.model_validate(known[model])
    config = Path(resolve_model(model)) / "config.json"
    if config.is_file():
        return _shape_of(json.loads(config.read_text(encoding="utf-8")), model)
    return _shape_of(_hub_config(model), model)


def known_positions(model: str) -> int | None:
    """Longest sequence of a model in tokens, prompt and answer, without asking the hub; None if it is not known. ModelError for a path without a checkpoint."""
    known = json.loads(SHAPES.read_text(encoding="utf-8"))
    if model in known:
        return known[model]["max_positions"]
    try:
        length = json.loads((Path(resolve_model(model)) / "config.json").read_bytes()).get("max_position_embeddings")
    except (OSError, ValueError, AttributeError):
        return None
    return length if isinstance(length, int) and length > 0 else None


def _hub_config(model: str) -> dict[str, Any]:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(model).to_dict()
    except (OSError, ValueError) as error:
        names = ", ".join(json.loads(SHAPES.read_text(encoding="utf-8")))
        raise ModelError(
            f"{model}: its shape is not at hand and cannot be fetched: {str(error).splitlines()[0]}; known without network are {names}, or give a directory"
        ) from None


def _shape_of(config: dict[str, Any], model: str) -> ModelShape:
    if config.get("model_type") != _FAMILY:
        raise ArchitectureError(f"{model}: memory is estimated for model_type {_FAMILY} only, this is {config.get('model_type')!r}: no estimate of its memory")
    dtype = str(config.get("dtype") or config.get("torch_dtype")).removeprefix("torch.")
    heads = config["num_attention_heads"]
    return ModelShape(
        hidden_size=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        intermediate_size=config["intermediate_size"],
        vocab_size=config["vocab_size"],
        tied=config.get("tie_word_embeddings", False),
        max_positions=config["max_position_embeddings"],
        dtype=dtype if dtype in _DTYPES else "float32",
    )
