"""What a base policy is taught: numbered batches that follow from the recipe, nothing that is held out."""

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest

from envgen.errors import DataError
from infra.config.recipe import load_recipe
from policy.tiny import corpus
from policy.tiny.corpus import (
    DESIGN_BATCHES,
    Example,
    batches,
    design_chunks,
    designs_before,
    evaluation_instances,
    lesson_examples,
    read_examples,
    write_examples,
)
from policy.tiny.spec import BootstrapRecipe

STEPS = 90
DESIGNS: list[Example] = [(f"question {number:04d}", f"answer {number}") for number in range(400)]


def recipe(**changes: object) -> BootstrapRecipe:
    def lesson(agents: int, weight: float, strata: dict, **taught: object) -> dict:
        mixture = {"strata": strata, **taught}
        family = {"name": "mapf-frozenlake", "options": {"agents": agents}}
        named = {"name": f"{agents} agents", "family": family, "prompt_style": "compact"}
        return {**named, "weight": weight, "taught": mixture, "evaluated": mixture}

    lessons = [
        lesson(2, 0.75, {3: {}, 4: {}}, grid={"hole_ratio": (0.2, 0.3)}, knobs={"wait_ratio": 0.03}),
        lesson(3, 0.25, {5: {}}, grid={"hole_ratio": (0.2,)}, knobs={"wait_ratio": 0.5}),
    ]
    plain = {
        "hidden_size": 8,
        "layers": 1,
        "heads": 1,
        "presets": ["tiny"],
        "lessons": lessons,
        "steps": STEPS,
        "warmup_steps": 0,
        "batch_size": 4,
        "design_batch_size": 3,
    }
    return BootstrapRecipe.model_validate(plain | changes)


@pytest.fixture(autouse=True)
def _few_drawn_together(monkeypatch: pytest.MonkeyPatch):
    """Several chunks of boards in few steps."""
    monkeypatch.setattr(corpus, "LESSON_BATCHES", 16)


def of_designs(found: list[list[Example]]) -> list[int]:
    """Numbers of the batches of design questions."""
    return [number for number, batch in enumerate(found) if batch[0][0].startswith("question")]


def test_batches_are_the_same_from_any_number_on():
    whole = list(batches(recipe(), frozenset(), DESIGNS))
    assert len(whole) == STEPS
    for first in (1, 15, 16, 17, 44, 45, 46, 47, 61, STEPS - 1, STEPS):
        assert list(batches(recipe(), frozenset(), DESIGNS, first)) == whole[first:]


def test_batches_follow_from_the_seed_of_the_recipe():
    assert next(batches(recipe(), frozenset(), DESIGNS)) != next(
        batches(recipe(seed=1), frozenset(), DESIGNS)
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, list(range(45, STEPS, 3))),
        ({"designs_from": 0, "designs_every": 2}, list(range(0, STEPS, 2))),
        ({"designs_from": 0.9, "designs_every": 5}, [81, 86]),
        ({"designs_from": 1}, []),
    ],
)
def test_batches_of_design_questions_come_from_a_step_on_and_every_so_many(
    settings: dict, expected: list[int]
):
    ours = recipe(**settings)
    found = list(batches(ours, frozenset(), DESIGNS))
    assert of_designs(found) == expected
    assert [designs_before(ours, number) for number in range(STEPS + 1)] == [
        sum(one < number for one in expected) for number in range(STEPS + 1)
    ]


def test_no_design_question_is_asked_twice_and_there_are_enough():
    ours = recipe()
    found = list(batches(ours, frozenset(), DESIGNS))
    asked = [example for number in of_designs(found) for example in found[number]]
    assert len(set(asked)) == len(asked) == 15 * ours.design_batch_size
    assert design_chunks(ours) == 1
    assert set(asked) <= set(DESIGNS[: DESIGN_BATCHES * ours.design_batch_size])
    assert design_chunks(recipe(designs_from=0, designs_every=2)) == 3, "45 batches of 16 each"


def test_batches_of_boards_are_full_and_rarely_repeat_a_board():
    found = list(batches(recipe(designs_from=1), frozenset(), DESIGNS))
    assert {len(batch) for batch in found} == {4}
    boards = [question for batch in found for question, _ in batch]
    assert len(set(boards)) > 0.95 * len(boards)


def test_questions_of_a_batch_are_of_similar_length_or_mixed():
    def spread(found: list[list[Example]]) -> int:
        lengths = [[len(question) + len(answer) for question, answer in batch] for batch in found]
        return sum(max(batch) - min(batch) for batch in lengths)

    alike, mixed = (
        list(batches(recipe(designs_from=1, similar_lengths=similar), frozenset(), DESIGNS))[:80]
        for similar in (True, False)
    )
    assert spread(alike) < spread(mixed) / 3
    assert sorted(one for batch in alike for one in batch) == sorted(one for batch in mixed for one in batch)


def test_no_instance_is_taught_that_is_held_out(monkeypatch: pytest.MonkeyPatch):
    family = type(recipe().lessons[0].task)
    monkeypatch.setattr(family, "prompt", lambda self, instance, style: instance.id)
    first = {name for name, _ in lesson_examples(recipe(), frozenset(), 0)}
    held_out = frozenset(sorted(first)[::2])
    again = [name for name, _ in lesson_examples(recipe(), held_out, 0)]
    assert not held_out & set(again)
    assert len(again) == len(lesson_examples(recipe(), frozenset(), 0)), "others are drawn instead"


def test_boards_are_of_the_kinds_of_the_recipe():
    asked = [question for question, _ in lesson_examples(recipe(), frozenset(), 3)]
    assert len(asked) == 64
    three = [question for question in asked if "Agent 2" in question]
    assert len(three) == 16
    assert all("5x5" in question for question in three)
    assert all("3x3" in question or "4x4" in question for question in asked if question not in three)


def test_the_shipped_recipe_draws_what_the_shipped_policy_was_taught(monkeypatch: pytest.MonkeyPatch):
    """The digests were taken from the code that it was made with."""
    monkeypatch.setattr(corpus, "LESSON_BATCHES", 64)
    small = load_recipe(None, {"batch_size": 16})

    def digest(found: list) -> str:
        return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]

    assert digest(lesson_examples(small, frozenset(), 0)) == "1e12c4df74620bfc"
    evaluated = [one.id for lesson in small.lessons for one in evaluation_instances(lesson, 3)]
    assert digest(evaluated) == "c50de5728e251920"


def test_a_family_without_words_of_its_own_is_taught_too():
    taught = {"strata": {"2": {}, "3": {"carry_ratio": 0}}, "knobs": {"digits": 2, "carry_ratio": 0.5}}
    lesson = {"name": "sums", "family": {"name": "sums", "options": {"terms": [2, 3]}}}
    sums = recipe(lessons=[{**lesson, "taught": taught, "evaluated": taught}], presets=["micro-sums"])
    examples = lesson_examples(sums, frozenset(), 0)
    assert len(set(examples)) == len(examples) == 64
    for question, said in examples:
        assert sum(map(int, question.removeprefix("What is ").rstrip("?").split(" + "))) == int(said)
    evaluated = evaluation_instances(sums.lessons[0], 6)
    assert Counter((one.stratum, *one.labels) for one in evaluated) == {
        ("2",): 3,
        ("2", "carry"): 3,
        ("3",): 6,
    }


def test_examples_are_read_as_they_were_written(tmp_path: Path):
    write_examples(tmp_path / "designs.parquet", DESIGNS)
    assert read_examples(tmp_path / "designs.parquet") == DESIGNS
    with pytest.raises(DataError, match=r"nowhere\.parquet"):
        read_examples(tmp_path / "nowhere.parquet")
