"""How long prompts are, and whether they and their answers have room. Imports without torch."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from envgen.errors import ConfigError
from policy.checkpoints import resolve_model
from policy.grpo.model_size import known_positions

_PIECES = re.compile(r"[A-Za-z']+|\d|[^\sA-Za-z\d]+|\n+")
"""Words, digits, runs of punctuation and line ends: where Qwen's tokenizer cuts a text before it merges."""
_CHAT_TOKENS = 10
"""Of the chat template around one question."""
DESIGN_PROMPT_TOKENS = 2000
"""Of a design question with its context, in the full wording. Assumed."""


class Length(NamedTuple):
    """How long one kind of answer may be, in tokens."""

    field: str
    answer: int
    prompt: int
    """The longest prompt of its kind."""
    option: str
    """Name of the option that limits prompt and answer together."""
    limit: int | None


def check_lengths(model: str, lengths: Iterable[Length]) -> None:
    """ConfigError if a prompt and its longest answer exceed the engine, vLLM in training, or the model, where
    its limit is known."""
    positions = known_positions(model)
    for field, answer, prompt, option, limit in lengths:
        if positions is not None and answer + prompt > positions:
            raise ConfigError(
                f"{field}: {answer} tokens and a prompt of about {prompt} exceed the model's {positions};"
                " lower it, or change prompt_style"
            )
        if limit is not None and answer + prompt > limit:
            raise ConfigError(
                f"{field}: {answer} tokens and a prompt of about {prompt} exceed {option}, {limit}; lower the"
                " one, or raise the other"
            )


def prompt_tokens(model: str, prompt: str) -> int:
    """Tokens of a prompt: by the tokenizer of a checkpoint that is here, else about as Qwen's cuts it."""
    return _tokens(model, prompt) + _CHAT_TOKENS


def _tokens(model: str, text: str) -> int:
    tokenizer = Path(resolve_model(model)) / "tokenizer.json"
    if tokenizer.is_file():
        from tokenizers import Tokenizer

        return len(Tokenizer.from_file(str(tokenizer)).encode(text).ids)
    return len(_PIECES.findall(text))
