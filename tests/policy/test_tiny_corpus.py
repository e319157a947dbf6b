"""What the base policy is taught: numbered batches that follow from the recipe, and no board that is held
out."""

from pathlib import Path

import pytest

from envgen.errors import DataError
from policy.tiny import corpus
from policy.tiny.corpus import (
    DESIGN_BATCHES,
    Example,
    batches,
    board_examples,
    design_chunks,
    designs_before,
    read_examples,
    write_examples,
)
from policy.tiny.spec import Boards, BootstrapRecipe

STEPS = 90
DESIGNS: list[Example] = [(f"question {number:04d}", f"answer {number}") for number in range(400)]


def recipe(**changes: object) -> BootstrapRecipe:
    boards = (
        Boards(agents=2, weight=0.75, map_sizes={3: 0.5, 4: 0.5}, hole_ratios=(0.2, 0.3)),
        Boards(agents=3, weight=0.25, map_sizes={5: 1}, hole_ratios=(0.2,), wait_ratio=0.5),
    )
    plain = {
        "hidden_size": 8,
        "layers": 1,
        "heads": 1,
        "boards": boards,
        "steps": STEPS,
        "warmup_steps": 0,
        "batch_size": 4,
        "design_batch_size": 3,
    }
    return BootstrapRecipe.model_validate(plain | changes)


@pytest.fixture(autouse=True)
def _few_drawn_together(monkeypatch: pytest.MonkeyPatch):
    """Several chunks of boards in few steps."""
    monkeypatch.setattr(corpus, "BOARD_BATCHES", 16)


@pytest.fixture
def _ids_for_prompts(monkeypatch: pytest.MonkeyPatch):
    """Boards by their identity."""
    monkeypatch.setattr(corpus, "prompt", lambda problem, style: problem.id)


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


@pytest.mark.usefixtures("_ids_for_prompts")
def test_no_board_is_taught_that_is_held_out():
    first = {name for name, _ in board_examples(recipe(), frozenset(), 0)}
    held_out = frozenset(sorted(first)[::2])
    again = [name for name, _ in board_examples(recipe(), held_out, 0)]
    assert not held_out & set(again)
    assert len(again) == len(board_examples(recipe(), frozenset(), 0)), "others are drawn instead"


def test_boards_are_of_the_kinds_of_the_recipe():
    asked = [question for question, _ in board_examples(recipe(), frozenset(), 3)]
    assert len(asked) == 64
    three = [question for question in asked if "Agent 2" in question]
    assert len(three) == 16
    assert all("5x5" in question for question in three)
    assert all("3x3" in question or "4x4" in question for question in asked if question not in three)


def test_examples_are_read_as_they_were_written(tmp_path: Path):
    write_examples(tmp_path / "designs.parquet", DESIGNS)
    assert read_examples(tmp_path / "designs.parquet") == DESIGNS
    with pytest.raises(DataError, match=r"nowhere\.parquet"):
        read_examples(tmp_path / "nowhere.parquet")
