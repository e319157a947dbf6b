"""A small Qwen3 with its own tokenizer, before it is taught anything.

The tokenizer has a token for each number and fixed text between, and bytes for the rest.
"""

from collections import Counter
from collections.abc import Iterable

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from envgen.environment import Vocabulary
from policy.tiny.spec import BootstrapRecipe

PAD, END = "<|pad|>", "<|end|>"
SPECIAL = (PAD, END, "<|user|>", "<|assistant|>", "<|system|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
USUAL = Vocabulary(
    # Two-digit decimals and percentages, which design questions are made of; else one digit at a time, with
    # which arithmetic can be learned; runs of anything else.
    pieces=r"(?<![0-9.])(?:(?:0\.[0-9]{2}|1\.00)(?![0-9.])|[0-9]{1,3}%)|[0-9]|[^0-9\n]+|\n"
)
"""Of an environment that has no attribute `vocabulary`."""
MAX_LENGTH = 1024
LARGEST_NUMBER = 10
"""Whole numbers to this one are in every vocabulary, if its pieces keep them whole."""


def build_tokenizer(
    texts: Iterable[str], vocabulary: Vocabulary = USUAL, min_count: int = 20
) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer whose vocabulary holds every piece that occurs `min_count` times in `texts`.

    All fixed pieces of `vocabulary`, two-digit decimals and percentages are in it whatever the texts hold.
    Any text can be encoded; what is not in the vocabulary falls back to bytes.
    """
    splitter = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(vocabulary.pieces), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    counts = Counter(piece for text in texts for piece, _ in splitter.pre_tokenize_str(text))
    fixed = [
        *vocabulary.fixed,
        *(f"{hundredths / 100:.2f}" for hundredths in range(101)),
        *(f"{percent}%" for percent in range(101)),
        *(str(number) for number in range(LARGEST_NUMBER + 1)),
    ]
    always = [splitter.pre_tokenize_str(piece)[0][0] for piece in fixed]
    learned = sorted(piece for piece, count in counts.items() if count >= min_count)
    pieces = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), *always, *learned]
    numbered = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(vocab=numbered, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        model_max_length=MAX_LENGTH,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def new_model(recipe: BootstrapRecipe, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A randomly initialised Qwen3 of the recipe's shape."""
    pad, end = SPECIAL.index(PAD), SPECIAL.index(END)  # the first tokens of the vocabulary
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
