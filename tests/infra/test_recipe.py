"""Recipes of warm starts: of a file, made from options, and those that cannot work."""

from pathlib import Path
from typing import Any

import pytest

from envgen.errors import ConfigError, DataError
from infra.config.preset import load_preset
from infra.config.recipe import load_recipe, recipe_fields

SUMS = {"name": "sums", "environment": {"name": "sums", "options": {"terms": [2, 3]}}}


def test_a_file_is_read_and_fields_of_it_are_set(tmp_path: Path):
    path = tmp_path / "warm.yaml"
    path.write_text(
        "model: x\nsteps: 30\npresets: [mine.yaml]\nlessons: [{name: sums, environment: {name: sums}}]\n"
    )
    recipe = load_recipe(path, {"save_steps": 7})
    assert (recipe.steps, recipe.save_steps, recipe.batch_size) == (30, 7, 8)
    assert recipe.presets == (str(tmp_path / "mine.yaml"),)
    with pytest.raises(DataError, match="no such file"):
        load_recipe(tmp_path / "nowhere.yaml", {})


def test_a_preset_says_model_environment_style_and_config_and_holds_its_validation_set_out():
    preset = load_preset("smollm2-135m")
    recipe = load_recipe(recipe_fields("smollm2-135m"), {})
    [lesson] = recipe.lessons
    assert (recipe.model, recipe.presets) == (preset.model, ("smollm2-135m",))
    assert (lesson.environment, lesson.style) == (preset.environment, "board")
    assert lesson.config == preset.default_config
    assert recipe.longest_answer == preset.max_answer_tokens
    assert load_recipe(recipe_fields("smollm2-135m", "mine"), {}).model == "mine"


@pytest.mark.parametrize(
    ("preset", "settings", "complaint"),
    [
        ("bords", {}, "bords: no such preset"),
        ("tiny", {"start": "tiny"}, "start: Extra inputs"),
        ("tiny", {"dtype": "int8"}, "dtype: "),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(preset: str, settings: dict[str, Any], complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        load_recipe(recipe_fields(preset), settings)


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"step": 100}, "step: Extra inputs are not permitted"),
        ({"steps": "many"}, r"steps: .*\(got 'many'\)"),
        ({"steps": 100, "warmup_steps": 60}, "warmup_steps 60 end after decay_from 0.5 of 100 steps"),
        ({"model": None}, "model: "),
        ({"lessons": [SUMS | {"environment": {"options": {"agents": 9}}}]}, "environment.options: agents: "),
        ({"lessons": [SUMS | {"prompt_style": "loud"}]}, "prompt_style 'loud' is not one of"),
        ({"lessons": [SUMS | {"config": {"terms": {2: {"data_ratio": 1}}}}]}, r"config.terms: names \['2'\]"),
    ],
)
def test_a_recipe_that_cannot_work_is_refused_with_its_file_and_field(
    tmp_path: Path, overrides: dict[str, Any], complaint: str
):
    path = tmp_path / "recipe.yaml"
    path.write_text("model: x\nlessons: [{name: sums, environment: {name: sums}}]\n")
    with pytest.raises(ConfigError, match=f"recipe.yaml: .*{complaint}"):
        load_recipe(path, overrides)
