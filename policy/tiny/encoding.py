"""Questions and answers as the tokens that a chat model reads and writes."""

from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from envgen.errors import ModelError
from policy.chat.transformers_model import chat_tokens, end_tokens

NO_LABEL = -100
_ANSWER = "some answer"


def encoded(examples: list[dict[str, Any]], tokenizer: Any, end: int) -> dict[str, torch.Tensor]:
    """Return the pairs of one batch as token ids, with a loss on the answers and the token `end` after them.

    They are padded on the right, so that causal attention needs no mask.
    """
    [batch] = examples
    questions = chat_tokens(tokenizer, [question for question, _ in batch["pairs"]])
    answers = tokenizer([text for _, text in batch["pairs"]], add_special_tokens=False)["input_ids"]
    pairs = [(question, [*answer, end]) for question, answer in zip(questions, answers, strict=True)]
    ids = _padded([question + answer for question, answer in pairs], tokenizer.pad_token_id)
    labels = _padded([[NO_LABEL] * len(question) + answer for question, answer in pairs], NO_LABEL)
    places = torch.arange(ids.shape[1]).expand_as(ids)
    return {"input_ids": ids, "labels": labels, "position_ids": places}


def _padded(rows: list[list[int]], value: int) -> torch.Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


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
