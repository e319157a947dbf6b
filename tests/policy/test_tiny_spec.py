"""Recipes of base policies: the shipped one is read, and one that cannot work is refused with the field
named."""

from pathlib import Path
from typing import Any

import pytest
from support.presets import needs_reasoning_gym

from envgen.errors import ConfigError, DataError
from infra.config.preset import load_preset
from infra.config.recipe import load_recipe
from policy.tiny.spec import RECIPE

PUZZLES = RECIPE.with_name("puzzles.yaml")


def test_the_shipped_recipe_is_read_and_fields_of_it_are_set():
    plain = load_recipe(None, {})
    assert [lesson.name for lesson in plain.lessons] == ["2 agents", "3 agents", "4 agents", "5 agents"]
    changed = load_recipe(None, {"steps": 300})
    assert changed == plain.model_copy(update={"steps": 300})


@needs_reasoning_gym
def test_the_recipe_of_puzzles_teaches_the_kinds_of_its_preset():
    recipe = load_recipe(PUZZLES, {})
    [lesson] = recipe.lessons
    preset = load_preset(*recipe.presets)
    kinds, wanted = (
        {stratum["generator"] for stratum in one.family.options["strata"]} for one in (lesson, preset)
    )
    assert kinds == wanted
    assert len(kinds) == 8
    assert not recipe.similar_lengths
    assert lesson.style == preset.prompt_style
    assert recipe.longest_answer == preset.max_answer_tokens


def test_a_recipe_of_ones_own_is_read(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text(RECIPE.read_text().replace("layers: 4", "layers: 2"))
    assert load_recipe(path, {}) == load_recipe(None, {"layers": 2})
    with pytest.raises(DataError, match="no such file"):
        load_recipe(tmp_path / "nowhere.yaml", {})


def lesson(**changes: Any) -> list[dict[str, Any]]:
    mixture = {"strata": {4: {}}, "grid": {"hole_ratio": [0.2]}}
    family = {"name": "mapf-frozenlake", "options": {"agents": 2}}
    return [{"name": "x", "family": family, "taught": mixture, "evaluated": mixture, **changes}]


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"step": 100}, "step: Extra inputs are not permitted"),
        ({"steps": 1}, "steps: .* greater than or equal to 2"),
        ({"steps": "many"}, r"steps: .*\(got 'many'\)"),
        ({"seed": -1}, "seed: "),
        ({"layers": 0}, "layers: "),
        ({"heads": 0}, "heads: "),
        ({"hidden_size": 4}, "hidden_size: "),
        ({"hidden_size": 36}, "hidden_size 36 does not give 4 heads an even number of dimensions each"),
        ({"heads": 3}, "hidden_size 128 does not give 3 heads"),
        (
            {"steps": 100, "warmup_steps": 60},
            "warmup_steps 60 end after decay_from 0.5 of 100 steps; warm up for less",
        ),
        ({"decay_from": 1.5}, "decay_from: "),
        ({"designs_from": -0.1}, "designs_from: "),
        ({"designs_every": 1}, "designs_every: "),
        ({"batch_size": 0}, "batch_size: "),
        ({"design_batch_size": 0}, "design_batch_size: "),
        ({"muon_learning_rate": 0}, "muon_learning_rate: "),
        ({"adamw_learning_rate": -1e-3}, "adamw_learning_rate: "),
        ({"save_steps": 0}, "save_steps: "),
        ({"lessons": []}, "lessons: "),
        ({"presets": []}, "presets: "),
        ({"lessons": lesson(family={"name": "bords"})}, "there is no family 'bords'"),
        ({"lessons": lesson(family={"options": {"agents": 9}})}, "family.options: agents: "),
        ({"lessons": lesson(weight=0)}, "lessons.0.weight: "),
        ({"lessons": lesson(prompt_style="loud")}, "prompt_style 'loud' is not one of"),
        ({"lessons": lesson(taught={"strata": {}})}, "lessons.0.taught.strata: "),
        ({"lessons": lesson(taught={"strata": {2: {}}})}, "taught.strata: '2' is none of 3, 4"),
        (
            {"lessons": lesson(evaluated={"strata": {4: {"holes": 1}}})},
            "evaluated.holes: there is no such knob",
        ),
        ({"lessons": lesson(colour="red")}, "lessons.0.colour: "),
    ],
)
def test_a_recipe_that_cannot_work_is_refused_with_its_file_and_field(
    overrides: dict[str, Any], complaint: str
):
    with pytest.raises(ConfigError, match=f"recipe.yaml: .*{complaint}"):
        load_recipe(None, overrides)
