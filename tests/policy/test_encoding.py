"""Questions and answers as a chat model reads and writes them."""

from pathlib import Path
from typing import Any

import pytest
from support.tiny_chat_model import SPECIAL, TEMPLATE, write_chat_model

from envgen.errors import ModelError
from policy.chat.tokenizer import load_tokenizer
from policy.tiny.encoding import NO_LABEL, encoded, end_of_answer

END, TURN = (SPECIAL.index(name) for name in ("<|endoftext|>", "<|im_end|>"))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_tokenizer(str(write_chat_model(tmp_path_factory.mktemp("llama"))))


def test_only_the_answer_and_its_end_have_a_loss_behind_the_question_as_it_is_asked(tokenizer: Any):
    [batch] = encoded(iter([[("What is 9 + 2?", "11"), ("2 + 3?", "5")]]), tokenizer, TURN)
    for ids, labels, question, answer in zip(
        batch["input_ids"], batch["labels"], ("What is 9 + 2?", "2 + 3?"), ("11", "5"), strict=True
    ):
        learned = [label for label in labels if label != NO_LABEL]
        assert ids[-len(learned) :] == learned
        assert tokenizer.decode(learned) == f"{answer}<|im_end|>"
        asked = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        assert tokenizer.decode(ids[: -len(learned)]) == asked


def test_an_answer_ends_as_the_chat_template_ends_it(tokenizer: Any, tmp_path: Path):
    assert end_of_answer(tokenizer, [END, TURN]) == TURN
    plain = load_tokenizer(str(write_chat_model(tmp_path, TEMPLATE.replace("'<|im_end|>' + ", ""))))
    assert end_of_answer(plain, [END, TURN]) == TURN, "the tokenizer's own"
    assert end_of_answer(plain, END) == END, "where generation ends"


def test_a_model_whose_answers_never_end_is_refused(tokenizer: Any):
    with pytest.raises(ModelError, match="names no token that ends an answer"):
        end_of_answer(tokenizer, None)
