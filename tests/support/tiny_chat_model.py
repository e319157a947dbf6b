"""Chat models made on the spot: a llama of a few thousand parameters, and copies of the base policy."""

import json
import shutil
from pathlib import Path
from typing import Any

from policy.checkpoints import TINY_DIRECTORY

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] +"
    " '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
IGNORED = {"temperature": 0.9, "top_p": 0.6, "typical_p": 0.3, "no_repeat_ngram_size": 2}
IGNORED |= {"min_new_tokens": 20, "epsilon_cutoff": 0.5, "max_time": 0.001, "num_beams": 2}
IGNORED |= {"guidance_scale": 2.0, "cache_implementation": "static", "stop_strings": ["("]}
"""Fields of a generation config that change answers, crash a trainer, or cannot be saved."""


def vocabulary() -> list[str]:
    """Special tokens, bytes, and one word of two bytes."""
    from tokenizers import pre_tokenizers

    return [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), "11"]


def random_llama() -> Any:
    """Return the model, with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": len(vocabulary()), "hidden_size": 32, "intermediate_size": 64}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    rope = {"rope_type": "default", "rope_theta": 10_000.0}
    how = {"max_position_embeddings": 4096, "tie_word_embeddings": True, "rope_parameters": rope}
    return LlamaForCausalLM(LlamaConfig(**sizes, **how))


def write_chat_model(folder: Path, template: str | None = TEMPLATE) -> Path:
    """Write the model and its tokenizer as a Hugging Face folder, and return it."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    numbered = {token: number for number, token in enumerate(vocabulary())}
    tokenizer = Tokenizer(models.BPE(vocab=numbered, merges=[("1", "1")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    wrapped.chat_template = template
    model = random_llama()
    for config in (model.config, model.generation_config):
        config.eos_token_id, config.pad_token_id = 2, 0
    model.save_pretrained(folder)
    wrapped.save_pretrained(folder)
    return folder


def tiny_with(folder: Path, **files: dict[str, Any]) -> str:
    """Copy the base policy with other fields in its JSON files, None for a field less; return the folder."""
    shutil.copytree(TINY_DIRECTORY, folder)
    for name, fields in files.items():
        path = folder / f"{name}.json"
        merged = {**json.loads(path.read_text()), **fields}
        path.write_text(json.dumps({key: value for key, value in merged.items() if value is not None}))
    return str(folder)
