"""What a warm start teaches: references of the preset's config, nothing that is held out."""

from typing import Any
from unittest.mock import Mock

import pytest
from support.tiny_chat_model import SPECIAL, write_chat_model

from envgen.errors import ShortageError
from policy.chat.tokenizer import load_tokenizer
from policy.sft import NO_LABEL, encoded
from policy.warm_start import WarmStartRecipe, WarmStartSpec, evaluation_instances, examples

TURN = SPECIAL.index("<|im_end|>")


def sums(held_out: tuple[str, ...] = (), digits: int = 2, **recipe: Any) -> WarmStartSpec:
    part = {"digits": digits, "carry_ratio": 0.5}
    config = {"terms": {"2": {"data_ratio": 0.25, **part}, "3": {"data_ratio": 0.75, **part}}}
    fields = {"model": "x", "style": "plain", "answer_tokens": 8, "work": "work", "output": "output"}
    environment = {"name": "sums", "options": {"terms": [2, 3]}}
    fields |= {"environment": environment, "config": config, "held_out": held_out}
    return WarmStartSpec.model_validate({**fields, "recipe": {"steps": 10, "batch_size": 4, **recipe}})


def test_questions_follow_from_the_seed_in_the_shares_of_the_config_and_are_answered_right():
    pairs = examples(sums())
    assert pairs == examples(sums())
    assert pairs != examples(sums(seed=1))
    assert len(pairs) == 40
    assert sum(question.count("+") == 2 for question, _ in pairs) == 30
    for question, answer in pairs:
        assert sum(map(int, question.removeprefix("What is ").rstrip("?").split(" + "))) == int(answer)
    assert len(set(pairs)) > 0.95 * len(pairs), "questions rarely repeat"
    assert WarmStartRecipe().steps == 200


def test_what_is_held_out_is_not_taught_and_few_questions_are_repeated(monkeypatch: pytest.MonkeyPatch):
    environment = type(sums().task)
    monkeypatch.setattr(environment, "prompt", lambda self, instance, style: instance.id)
    drawn = [name for name, _ in examples(sums())]
    held_out = tuple(sorted(drawn)[::2])
    others = [name for name, _ in examples(sums(held_out))]
    assert not set(held_out) & set(others)
    assert len(others) == 40, "others are drawn instead"
    few = [name for name, _ in examples(sums(digits=1, steps=200))]
    assert len(set(few)) < len(few) == 800
    monkeypatch.setattr(environment, "generate", Mock(side_effect=ShortageError("none", [])))
    with pytest.raises(ShortageError, match="no instance exists beside those held out; change its knobs"):
        examples(sums())


def test_every_stratum_with_a_share_is_evaluated():
    strata = [instance.stratum for instance in evaluation_instances(sums(evaluation_instances=6))]
    assert strata == ["2"] * 6 + ["3"] * 6
    spec = sums(evaluation_instances=6)
    config = spec.task.space.config({"2": spec.config.strata["2"].model_copy(update={"data_ratio": 1.0})})
    assert {i.stratum for i in evaluation_instances(spec.model_copy(update={"config": config}))} == {"2"}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_tokenizer(str(write_chat_model(tmp_path_factory.mktemp("llama"))))


def test_only_the_answer_and_its_end_have_a_loss_after_the_question_as_it_is_asked(tokenizer: Any):
    pairs = [("What is 9 + 2?", "11"), ("2 + 3?", "5")]
    for row, (question, answer) in zip(encoded(pairs, tokenizer, TURN), pairs, strict=True):
        learned = [label for label in row["labels"] if label != NO_LABEL]
        assert tokenizer.decode(learned) == f"{answer}<|im_end|>"
        assert len(row["labels"]) == len(row["input_ids"])
        assert row["labels"][-len(learned) :] == row["input_ids"][-len(learned) :]
        asked = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        assert tokenizer.decode(row["input_ids"]) == f"{asked}{answer}<|im_end|>"
