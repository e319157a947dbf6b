"""Count a model's weights on PyTorch's meta device: `python -m policy.grpo.size_child REQUEST`.

REQUEST is a `SizeRequest` as JSON; prints a `ModelSize` as JSON.
"""

import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig

from policy.grpo.model_size import ModelSize, SizeRequest


def count(request: SizeRequest) -> ModelSize:
    """The size of the model that a request names; OSError or ValueError if it cannot be built."""
    config = (
        AutoConfig.for_model(**request.config)
        if request.config
        else AutoConfig.from_pretrained(request.source)
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
        parameters, embedding = model.num_parameters(), model.get_input_embeddings().weight.numel()
        adapters = None
        if request.lora is not None:
            adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **request.lora))
            adapters = sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)
    text = config.get_text_config()
    dtype = str(config.dtype or "").removeprefix("torch.")
    return ModelSize(
        parameters=parameters,
        embedding=embedding,
        adapters=adapters,
        cached=_cached(text),
        vocab_size=text.vocab_size,
        dtype=dtype if dtype in ("float32", "bfloat16", "float16") else "float32",
    )


def _cached(config: PreTrainedConfig) -> int:
    heads = config.num_attention_heads
    dimension = getattr(config, "head_dim", None) or config.hidden_size // heads
    return 2 * config.num_hidden_layers * (getattr(config, "num_key_value_heads", None) or heads) * dimension


if __name__ == "__main__":
    print(count(SizeRequest.model_validate_json(sys.argv[1])).model_dump_json())
