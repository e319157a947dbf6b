"""A small Qwen3 with a tokenizer of its own, before it is taught anything."""

from collections.abc import Iterable

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from policy.tiny.spec import BootstrapRecipe
from policy.tiny.tokenizer import END, MAX_LENGTH, PAD, USUAL, build_tokenizer


def begin(recipe: BootstrapRecipe, texts: Iterable[str]) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """The model of a recipe, and a tokenizer of what occurs in `texts`."""
    vocabulary = recipe.lessons[0].task.vocabulary or USUAL
    tokenizer = build_tokenizer(texts, vocabulary)
    return new_model(recipe, tokenizer), tokenizer


def new_model(recipe: BootstrapRecipe, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A randomly initialised Qwen3 of the recipe's shape."""
    pad, end = (tokenizer.convert_tokens_to_ids(name) for name in (PAD, END))
    assert isinstance(pad, int)
    assert isinstance(end, int)
    assert recipe.hidden_size
    assert recipe.layers
    assert recipe.heads
    torch.manual_seed(recipe.seed)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=recipe.hidden_size,
            intermediate_size=3 * recipe.hidden_size,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.heads,
            head_dim=recipe.hidden_size // recipe.heads,
            max_position_embeddings=MAX_LENGTH,
            tie_word_embeddings=True,
            pad_token_id=pad,
            eos_token_id=end,
            bos_token_id=None,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        )
    )
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = end, pad
    return model
