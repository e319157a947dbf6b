"""A chat model made on the spot: random weights, tokenizer built in the test."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def random_checkpoint(tmp_path_factory) -> Path:
    """A saved Qwen3 of a few thousand parameters with the tiny policy's kind of tokenizer."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from envgen.mapf.environment import VOCABULARY
    from policy.tiny.new_model import build_tokenizer

    tokenizer = build_tokenizer(["Solve 3x3.\nHoles: none\nAgent 0: (0,0) to (1,1)"] * 30, VOCABULARY)
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
