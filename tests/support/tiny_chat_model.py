"""A chat model made on the spot: a llama of a few thousand parameters with a byte-level tokenizer."""

from pathlib import Path
from typing import Any

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] +"
    " '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HEADS, KEY_HEADS, POSITIONS = 4, 2, 4096


def vocabulary() -> list[str]:
    """Special tokens, bytes, and one word of two bytes."""
    from tokenizers import pre_tokenizers

    return [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), "11"]


def random_llama() -> Any:
    """Return the model, with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary()),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=HEADS,
            num_key_value_heads=KEY_HEADS,
            max_position_embeddings=POSITIONS,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        )
    )


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
