"""Questions and answers as the tokens that a chat model reads and writes."""

from collections.abc import Iterator
from typing import Any

from envgen.errors import ModelError
from policy.chat.tokenizer import after_answer, end_tokens
from policy.tiny.corpus import Example

NO_LABEL = -100


def encoded(drawn: Iterator[list[Example]], tokenizer: Any, end: int) -> Iterator[dict[str, Any]]:
    """Batches as token ids, with a loss on the answers and the token `end` behind them alone.

    The question is what the chat template makes of it when the model is asked.
    """
    for batch in drawn:
        messages = [[{"role": "user", "content": question}] for question, _ in batch]
        asked: Any = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        questions: Any = tokenizer(asked, add_special_tokens=False)["input_ids"]
        answers: Any = tokenizer([text for _, text in batch], add_special_tokens=False)["input_ids"]
        pairs = [(question, [*answer, end]) for question, answer in zip(questions, answers, strict=True)]
        yield {
            "input_ids": [question + answer for question, answer in pairs],
            "labels": [[NO_LABEL] * len(question) + answer for question, answer in pairs],
        }


def end_of_answer(tokenizer: Any, configured: int | list[int] | None) -> int:
    """The token that ends an answer: the one that the chat template puts behind it, if generation ends there.

    Else the tokenizer's own end. `configured` are the end tokens of the model's generation config; ModelError
    if it has none.
    """
    ends = end_tokens(configured)
    found = [token for token in (*after_answer(tokenizer), tokenizer.eos_token_id, *ends) if token in ends]
    if not found:
        raise ModelError(
            f"{tokenizer.name_or_path}: its generation config names no token that ends an answer"
            " (eos_token_id); add it to generation_config.json"
        )
    return found[0]
