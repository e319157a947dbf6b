"""A chat model made on the spot: random weights and the tokenizer of the tiny policy."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def random_checkpoint(tmp_path_factory) -> Path:
    """A saved Qwen3 of a few thousand parameters with the tiny policy's tokenizer."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from policy.chat.transformers_model import load_tokenizer

    tokenizer = load_tokenizer("tiny")
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=8,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    path = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
