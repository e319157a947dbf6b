"""What a warm start teaches: batches that follow from the recipe, nothing that is held out."""

from pathlib import Path
from typing import Any

import pytest
from support.tiny_chat_model import SPECIAL, TEMPLATE, write_chat_model

from envgen.errors import ModelError
from policy import warm_start
from policy.chat.transformers_model import load_tokenizer
from policy.sft import NO_LABEL, encoded, end_of_answer
from policy.warm_start import WarmStartRecipe, batches, evaluation_instances, lesson_examples

STEPS = 50
END, TURN = (SPECIAL.index(name) for name in ("<|endoftext|>", "<|im_end|>"))


def recipe(**changes: object) -> WarmStartRecipe:
    def lesson(agents: int, sizes: tuple[int, ...], weight: float) -> dict:
        environment = {"name": "mapf-frozenlake", "options": {"agents": agents, "map_sizes": sizes}}
        named = {"name": f"{agents} agents", "environment": environment, "prompt_style": "compact"}
        part = {"data_ratio": 1 / len(sizes), "hole_ratio": 0.2, "wait_ratio": 0.25}
        return {**named, "weight": weight, "config": {"sizes": dict.fromkeys(sizes, part)}}

    lessons = [lesson(2, (3, 4), 0.75), lesson(3, (5,), 0.25)]
    fields = {"model": "x", "steps": STEPS, "batch_size": 4, "lessons": lessons}
    return WarmStartRecipe.model_validate(fields | changes)


@pytest.fixture(autouse=True)
def _few_drawn_together(monkeypatch: pytest.MonkeyPatch):
    """Several chunks of boards in few steps."""
    monkeypatch.setattr(warm_start, "CHUNK", 16)


def test_batches_are_full_follow_from_the_seed_and_are_the_same_from_any_number_on():
    whole = list(batches(recipe(), frozenset()))
    assert [len(batch) for batch in whole] == [4] * STEPS
    for first in (1, 17, STEPS - 1, STEPS):
        assert list(batches(recipe(), frozenset(), first)) == whole[first:]
    assert next(batches(recipe(seed=1), frozenset())) != whole[0]
    questions = [question for batch in whole for question, _ in batch]
    assert len(set(questions)) > 0.95 * len(questions), "boards rarely repeat"


def test_lessons_have_their_share_and_no_instance_that_is_held_out(monkeypatch: pytest.MonkeyPatch):
    questions = [question for question, _ in lesson_examples(recipe(), frozenset(), 3)]
    three = [question for question in questions if "Agent 2" in question]
    assert (len(questions), len(three)) == (64, 16)
    assert all(("5x5" in question) == (question in three) for question in questions)
    environment = type(recipe().lessons[0].task)
    monkeypatch.setattr(environment, "prompt", lambda self, instance, style: instance.id)
    first = {name for name, _ in lesson_examples(recipe(), frozenset(), 0)}
    held_out = frozenset(sorted(first)[::2])
    again = [name for name, _ in lesson_examples(recipe(), held_out, 0)]
    assert not held_out & set(again)
    assert len(again) == 64, "others are drawn instead"


def test_any_environment_is_taught_and_evaluated_on_every_stratum_with_a_share():
    part = {"digits": 2, "carry_ratio": 0.5}
    shares = {"2": {"data_ratio": 1, **part}, "3": {"data_ratio": 0, **part}}
    lesson = {"name": "sums", "environment": {"name": "sums", "options": {"terms": [2, 3]}}}
    for config, strata in (({"terms": shares}, ["2"]), (None, ["2", "3"])):
        sums = recipe(lessons=[{**lesson, "config": config}])
        for question, answer in lesson_examples(sums, frozenset(), 0):
            assert sum(map(int, question.removeprefix("What is ").rstrip("?").split(" + "))) == int(answer)
        evaluated = evaluation_instances(sums.lessons[0], 6)
        assert [instance.stratum for instance in evaluated] == [name for name in strata for _ in range(6)]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_tokenizer(str(write_chat_model(tmp_path_factory.mktemp("llama"))))


def test_only_the_answer_and_its_end_have_a_loss_after_the_question_as_it_is_asked(tokenizer: Any):
    pairs = [("What is 9 + 2?", "11"), ("2 + 3?", "5")]
    batch = encoded([{"pairs": pairs}], tokenizer, TURN)
    rows = zip(batch["input_ids"].tolist(), batch["labels"].tolist(), pairs, strict=True)
    for ids, labels, (question, answer) in rows:
        learned = [label for label in labels if label != NO_LABEL]
        length = max(place for place, label in enumerate(labels) if label != NO_LABEL) + 1
        assert tokenizer.decode(learned) == f"{answer}<|im_end|>"
        asked = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        assert tokenizer.decode(ids[:length]) == f"{asked}{answer}<|im_end|>"
        assert set(ids[length:]) <= {tokenizer.pad_token_id}


def test_an_answer_ends_as_the_chat_template_ends_it(tokenizer: Any, tmp_path: Path):
    assert end_of_answer(tokenizer, [END, TURN]) == TURN
    plain = load_tokenizer(str(write_chat_model(tmp_path, TEMPLATE.replace("'<|im_end|>' + ", ""))))
    assert end_of_answer(plain, END) == END, "where generation ends"
    with pytest.raises(ModelError, match="names no token that ends an answer"):
        end_of_answer(tokenizer, None)
