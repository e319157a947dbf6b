"""Questions and answers as the tokens that a chat model reads and writes."""

from collections.abc import Iterator
from typing import Any

from envgen.errors import ModelError
from policy.chat.transformers_model import chat_tokens, end_tokens
from policy.tiny.corpus import Example

NO_LABEL = -100
_ANSWER = "some answer"


def encoded(drawn: Iterator[list[Example]], tokenizer: Any, end: int) -> Iterator[dict[str, Any]]:
    """Batches as token ids, with a loss on the answers and the token `end` after them alone."""
    for batch in drawn:
        questions = chat_tokens(tokenizer, [question for question, _ in batch])
        answers: Any = tokenizer([text for _, text in batch], add_special_tokens=False)["input_ids"]
        pairs = [(question, [*answer, end]) for question, answer in zip(questions, answers, strict=True)]
        yield {
            "input_ids": [question + answer for question, answer in pairs],
            "labels": [[NO_LABEL] * len(question) + answer for question, answer in pairs],
        }


def end_of_answer(tokenizer: Any, configured: int | list[int] | None) -> int:
    """The token that ends an answer: the one that the chat template puts after it, if generation ends there.

    Else the tokenizer's own end. `configured` are the end tokens of the model's generation config; ModelError
    if it has none.
    """
    ends = end_tokens(configured)
    turns = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": _ANSWER}]
    after = tokenizer.apply_chat_template(turns, tokenize=False).rpartition(_ANSWER)[2]
    candidates = (*tokenizer(after, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id, *ends)
    for token in candidates:
        if token in ends:
            return token
    raise ModelError(
        f"{tokenizer.name_or_path}: its generation config names no token that ends an answer (eos_token_id); "
        "add it to generation_config.json"
    )
