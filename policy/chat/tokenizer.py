"""Tokenizers with a chat template, and the errors of libraries about the files of a model."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from transformers import AutoTokenizer

from envgen.errors import ModelError
from envgen.terminal import printable
from policy.checkpoints import resolve_model

QUOTED = 600
"""Maximum length of a library's words in an error message."""
_HELLO = [{"role": "user", "content": "Hello"}]
_ANSWER = "some answer"


def load_tokenizer(source: str) -> Any:
    """The tokenizer of a checkpoint or hub id; ModelError if it does not load or has no chat template."""
    with loading(source):
        tokenizer = AutoTokenizer.from_pretrained(
            resolve_model(source), padding_side="left", trust_remote_code=False
        )
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.chat_template is None:
        raise ModelError(f"{source}: its tokenizer has no chat template; use an instruction-tuned model")
    with refused(f"{source}: its chat template cannot be used"):
        hello = tokenizer.apply_chat_template(_HELLO, tokenize=False, add_generation_prompt=True)
        tokenizer(hello, add_special_tokens=False)
    return tokenizer


def loading(source: str) -> AbstractContextManager[None]:
    """Turn whatever a library raises about the files of a model into one ModelError."""
    return refused(f"{source}: cannot be loaded")


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Turn whatever a library raises into a ModelError that starts with `what`."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:  # libraries raise anything about damaged and hostile files
        words = printable(f"{type(error).__name__}: {error}")
        raise ModelError(f"{what}: {words if len(words) <= QUOTED else words[:QUOTED] + '...'}") from None


def end_tokens(configured: int | list[int] | None) -> set[int]:
    """Ids of the tokens that end an answer, from the `eos_token_id` of a generation config."""
    if configured is None:
        return set()
    return set(configured) if isinstance(configured, list) else {configured}


def after_answer(tokenizer: Any) -> list[int]:
    """Token ids that the chat template writes after an answer; raises whatever the template raises."""
    turns = [*_HELLO, {"role": "assistant", "content": _ANSWER}]
    text = tokenizer.apply_chat_template(turns, tokenize=False)
    return tokenizer(text.rpartition(_ANSWER)[2], add_special_tokens=False)["input_ids"]
