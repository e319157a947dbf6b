"""How long prompts are, and whether they and their answers have room. Imports without torch."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from engineer.engineers.registry import find_engineer
from envgen.errors import ConfigError, ModelError
from policy.checkpoints import resolve_model
from policy.fetched import PACKAGED, is_fetched
from policy.grpo.model_size import known_positions
from policy.grpo.train_spec import answer_tokens

if TYPE_CHECKING:
    from infra.config.preset import Preset

_PIECES = re.compile(r"[A-Za-z']+|\d|[^\sA-Za-z\d]+|\n+")
"""Words, digits, runs of punctuation and line ends: where Qwen's tokenizer cuts a text before it merges."""
_CHAT_TOKENS = 10
"""Of the chat template around one question."""
DESIGN_PROMPT_TOKENS = 2000
"""Of a design question with its context, in the full wording. Assumed."""


def check_lengths(preset: "Preset") -> None:
    """ConfigError if the longest prompt and an answer of the length allowed exceed the engine, vLLM in
    training, or the model, where its limit is known."""
    try:
        asked, positions = prompt_tokens(preset), known_positions(preset.model)
    except ModelError:  # the checkpoint may be made before the run, which says so if it is not
        return
    for field, answer, question, name, limit in _lengths(preset, asked):
        if positions is not None and answer + question > positions:
            raise ConfigError(
                f"{field}: {answer} tokens and a prompt of about {question} exceed the model's {positions};"
                " lower it, or change prompt_style"
            )
        if limit is not None and answer + question > limit:
            raise ConfigError(
                f"{field}: {answer} tokens and a prompt of about {question} exceed {name}, {limit}; lower the"
                " one, or raise the other"
            )


def _lengths(preset: "Preset", asked: int) -> Iterator[tuple[str, int, int, str, int | None]]:
    """(field, longest answer, prompt, name of the option that limits both, its value) of each kind of
    answer."""
    engine = ("engine.max_model_len", preset.engine.max_model_len)
    yield "max_answer_tokens", preset.max_answer_tokens, asked, *engine
    engineer = preset.effective_engineer()
    # The compact wording is cut to what the context of its policy allows.
    if engineer.wording == "full" and find_engineer(engineer.name).asks is not None:
        yield "engineer.max_tokens", engineer.max_tokens, DESIGN_PROMPT_TOKENS, *engine
    length = preset.trl.get("vllm_max_model_length") if preset.trl.get("use_vllm") else None
    yield (
        "trl.max_completion_length",
        answer_tokens(preset.trl),
        asked,
        "trl.vllm_max_model_length",
        length if isinstance(length, int) else None,
    )


def prompt_tokens(preset: "Preset") -> int:
    """Tokens of the longest prompt: by the tokenizer of a checkpoint that is here, else about as Qwen's cuts
    it."""
    return _tokens(preset.model, preset.task.longest_prompt(preset.prompt_style)) + _CHAT_TOKENS


def _tokens(model: str, text: str) -> int:
    fetched_later = model in PACKAGED and not is_fetched(model)
    tokenizer = None if fetched_later else Path(resolve_model(model)) / "tokenizer.json"
    if tokenizer is not None and tokenizer.is_file():
        from tokenizers import Tokenizer

        return len(Tokenizer.from_file(str(tokenizer)).encode(text).ids)
    return len(_PIECES.findall(text))
