"""The tokenizer that a GGUF file describes, as one of transformers.

The reader of transformers does not suffice for byte-level vocabularies: it ignores how numbers are split,
and takes the token that begins a text for the one that ends it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from envgen.errors import ModelError
from policy.chat.local_model import after_answer

CONTROL, USER_DEFINED = 3, 4
"""Kinds of tokens that a text is split at before all else."""
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "llama-bpe": _WORDS + r"\p{N}{1,3}" + _REST,
    "qwen2": _WORDS + r"\p{N}" + _REST,
}
"""How these split a text, by the name in the file."""
DIGITS = {"gpt-2": False, "smollm": True}
"""Of those that split a text as GPT-2 does: whether each digit stands alone."""


@dataclass(frozen=True)
class Ends:
    """The tokens that end an answer."""

    turn: int
    """What the chat template writes behind an answer."""
    every: list[int]
    """Also the one that the file names, if that is another one."""


def read_tokenizer(file: Path, fields: Mapping[str, Any]) -> tuple[PreTrainedTokenizerFast, Ends]:
    """The tokenizer of a GGUF file with these metadata, and how its answers end.

    ModelError if there is no chat template, or the
    tokenizer is of an unknown kind.
    """
    template = fields.get("tokenizer.chat_template")
    if not template:
        raise ModelError(
            f"{file}: has no chat template (tokenizer.chat_template); take the GGUF of an instruction-tuned"
            " model"
        )
    kind = fields.get("tokenizer.ggml.model")
    if kind == "gpt2":
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=_byte_level(file, fields))
    else:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    tokens = fields["tokenizer.ggml.tokens"]
    for name, role in (("bos", "bos"), ("eos", "eos"), ("unknown", "unk"), ("padding", "pad")):
        number = fields.get(f"tokenizer.ggml.{name}_token_id")
        setattr(tokenizer, f"{role}_token", None if number is None else tokens[number])
    tokenizer.chat_template = template
    ends = _ends(file, tokenizer)
    tokenizer.eos_token = tokens[ends.turn]
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.clean_up_tokenization_spaces = False
    return tokenizer, ends


def _byte_level(file: Path, fields: Mapping[str, Any]) -> Tokenizer:
    tokens, split = fields["tokenizer.ggml.tokens"], fields.get("tokenizer.ggml.pre")
    if split in PATTERNS:
        first = pre_tokenizers.Split(Regex(PATTERNS[split]), behavior="isolated")
    elif split in DIGITS:
        first = pre_tokenizers.Digits(individual_digits=True) if DIGITS[split] else None
    else:
        known = ", ".join(sorted({*PATTERNS, *DIGITS}))
        raise ModelError(
            f"{file}: how its tokenizer splits a text (tokenizer.ggml.pre) is {split!r}; known are {known}."
            " Take the model's Hugging Face folder instead"
        )
    merges = [tuple(pair.split(" ", 1)) for pair in fields["tokenizer.ggml.merges"]]
    # Llama 3 knows whole words that no merges lead to.
    bpe = models.BPE(
        vocab={token: number for number, token in enumerate(tokens)},
        merges=merges,
        ignore_merges=split == "llama-bpe",
    )
    tokenizer = Tokenizer(bpe)
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split in DIGITS)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([first, bytes_of] if first else [bytes_of])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = dict(enumerate(fields.get("tokenizer.ggml.token_type", [])))
    apart = [(token, kinds.get(number)) for number, token in enumerate(tokens)]
    whole = {
        kind: [AddedToken(t, normalized=False, special=kind == CONTROL) for t, k in apart if k == kind]
        for kind in (CONTROL, USER_DEFINED)
    }
    tokenizer.add_special_tokens(whole[CONTROL])
    tokenizer.add_tokens(whole[USER_DEFINED])
    return tokenizer


def _ends(file: Path, tokenizer: Any) -> Ends:
    """What ends an answer: by the chat template, and by the file."""
    try:
        behind = after_answer(tokenizer)
    except Exception as error:  # a template is a program: it may raise anything
        raise ModelError(f"{file}: its chat template does not render a conversation: {error}") from None
    named = tokenizer.eos_token_id
    special = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
    turn = behind[0] if behind and behind[0] in special else named
    if turn is None:
        raise ModelError(f"{file}: no token ends an answer: neither the chat template nor the file names one")
    return Ends(turn, [turn] if named in (turn, None) else [turn, named])
