"""What a base policy is taught: batches that follow from the recipe, nothing that is held out."""

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny_chat_model import SPECIAL, TEMPLATE, write_chat_model
from torch import nn

from envgen.errors import ModelError
from policy.chat.transformers_model import load_tokenizer
from policy.tiny import corpus
from policy.tiny.corpus import (
    Example,
    batches,
    designs_before,
    evaluation_instances,
    lesson_examples,
)
from policy.tiny.encoding import NO_LABEL, encoded, end_of_answer
from policy.tiny.optimizer import MuonAdamW, parameters
from policy.tiny.spec import BootstrapRecipe

STEPS = 90
DESIGNS: list[Example] = [(f"question {number:04d}", f"answer {number}") for number in range(400)]
END, TURN = (SPECIAL.index(name) for name in ("<|endoftext|>", "<|im_end|>"))


def recipe(**changes: object) -> BootstrapRecipe:
    def lesson(agents: int, weight: float, taught: dict) -> dict:
        environment = {"name": "mapf-frozenlake", "options": {"agents": agents}}
        named = {"name": f"{agents} agents", "environment": environment, "prompt_style": "compact"}
        return {**named, "weight": weight, "taught": taught}

    shape = {"hidden_size": 8, "layers": 1, "heads": 1}
    grid = {"hole_ratio": (0.2, 0.3)}
    lessons = [
        lesson(2, 0.75, {"strata": {3: {}, 4: {}}, "grid": grid, "knobs": {"wait_ratio": 0.03}}),
        lesson(3, 0.25, {"strata": {5: {}}, "knobs": {"wait_ratio": 0.5}}),
    ]
    steps = {"steps": STEPS, "warmup_steps": 0, "batch_size": 4, "design_batch_size": 3}
    return BootstrapRecipe.model_validate(shape | steps | {"presets": ["tiny"], "lessons": lessons} | changes)


@pytest.fixture(autouse=True)
def _few_drawn_together(monkeypatch: pytest.MonkeyPatch):
    """Several chunks of boards in few steps."""
    monkeypatch.setattr(corpus, "LESSON_BATCHES", 16)


def test_batches_are_full_follow_from_the_seed_and_are_the_same_from_any_number_on():
    whole = list(batches(recipe(), frozenset(), DESIGNS))
    assert len(whole) == STEPS
    for first in (1, 17, 45, STEPS - 1, STEPS):
        assert list(batches(recipe(), frozenset(), DESIGNS, first)) == whole[first:]
    assert next(batches(recipe(seed=1), frozenset(), DESIGNS)) != whole[0]
    boards = [batch for batch in whole if not batch[0][0].startswith("question")]
    assert {len(batch) for batch in boards} == {4}
    questions = [question for batch in boards for question, _ in batch]
    assert len(set(questions)) > 0.95 * len(questions), "boards rarely repeat"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, list(range(45, STEPS, 3))),
        ({"designs_from": 0, "designs_every": 2}, list(range(0, STEPS, 2))),
        ({"designs_from": 1}, []),
    ],
)
def test_design_questions_come_from_a_step_on_and_every_so_many_and_never_twice(settings: dict, expected):
    ours = recipe(**settings)
    drawn = list(batches(ours, frozenset(), DESIGNS))
    numbers = [number for number, batch in enumerate(drawn) if batch[0][0].startswith("question")]
    assert numbers == expected
    assert designs_before(ours, STEPS) == len(expected)
    asked = [example for number in numbers for example in drawn[number]]
    assert len(set(asked)) == len(asked) == len(expected) * ours.design_batch_size


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


def test_any_environment_is_taught_and_evaluated_on_every_stratum():
    taught = {"strata": {"2": {}, "3": {"carry_ratio": 0}}, "knobs": {"digits": 2, "carry_ratio": 0.5}}
    lesson = {"name": "sums", "environment": {"name": "sums", "options": {"terms": [2, 3]}}, "taught": taught}
    sums = recipe(lessons=[lesson], presets=["micro-sums"])
    for question, answer in lesson_examples(sums, frozenset(), 0):
        assert sum(map(int, question.removeprefix("What is ").rstrip("?").split(" + "))) == int(answer)
    evaluated = evaluation_instances(sums.lessons[0], 6)
    assert [one.stratum for one in evaluated] == ["2"] * 6 + ["3"] * 6
    assert [one.stratum for one in evaluation_instances(recipe().lessons[0], 6)] == ["3"] * 6 + ["4"] * 6


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


def test_muon_and_adamw_share_a_schedule_and_continue_from_a_file():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 4))
    start = {name: value.clone() for name, value in model.state_dict().items()}

    def step(optimizer: MuonAdamW, seed: int) -> dict[str, torch.Tensor]:
        optimizer.zero_grad()
        model(torch.randn(5, 6, generator=torch.Generator().manual_seed(seed))).square().sum().backward()
        optimizer.step()
        return {name: value.clone() for name, value in model.state_dict().items()}

    optimizer = MuonAdamW(**parameters(model), muon_lr=0.02, adamw_lr=0.004)
    for group in optimizer.param_groups[1:]:
        group["lr"] = 0.0
    first = step(optimizer, 1)
    assert {name for name in start if not torch.equal(first[name], start[name])} == {"0.weight", "2.weight"}
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    second = step(optimizer, 2)
    model.load_state_dict(first)
    continued = MuonAdamW(**parameters(model), muon_lr=1.0, adamw_lr=1.0)
    continued.load_state_dict(torch.load(file, weights_only=True))
    assert all(torch.equal(value, second[name]) for name, value in step(continued, 2).items())
