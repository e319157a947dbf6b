"""Recipes of warm starts: the shipped one, those made from options, and those that cannot work."""

from pathlib import Path
from typing import Any

import pytest

from envgen.errors import ConfigError, DataError
from infra.config.preset import load_preset
from infra.config.recipe import load_recipe, warm_start
from policy.tiny.spec import RECIPE


def test_the_shipped_recipe_is_read_and_fields_of_it_are_set(tmp_path: Path):
    plain = load_recipe(None, {})
    assert [lesson.name for lesson in plain.lessons] == ["2 agents", "3 agents", "4 agents", "5 agents"]
    assert load_recipe(None, {"steps": 300}) == plain.model_copy(update={"steps": 300})
    path = tmp_path / "mine.yaml"
    path.write_text(RECIPE.read_text().replace("layers: 4", "layers: 2"))
    assert load_recipe(path, {}) == load_recipe(None, {"layers": 2})
    with pytest.raises(DataError, match="no such file"):
        load_recipe(tmp_path / "nowhere.yaml", {})


def test_a_preset_says_model_environment_style_and_mixture_and_holds_its_validation_set_out():
    preset = load_preset("smollm2-135m")
    recipe = load_recipe(None, {}, warm_start("smollm2-135m"))
    [lesson] = recipe.lessons
    assert (recipe.model, recipe.presets) == (preset.model, ("smollm2-135m",))
    assert (lesson.environment, lesson.style) == (preset.environment, "board")
    assert [config for _, config in lesson.taught.parts(lesson.task.space)] == [preset.default_config]
    assert recipe.longest_answer == preset.max_answer_tokens
    assert load_recipe(None, {}, warm_start("smollm2-135m", "mine")).model == "mine"


def test_a_recipe_with_a_model_may_leave_out_how_it_is_trained(tmp_path: Path):
    path = tmp_path / "warm.yaml"
    path.write_text("model: x\nsteps: 30\nlessons: [{name: sums, environment: {name: sums}}]\n")
    recipe = load_recipe(path, {"save_steps": 7})
    assert (recipe.steps, recipe.save_steps, recipe.batch_size) == (30, 7, 8)
    assert (recipe.muon_learning_rate, recipe.designs_from) == (None, 1)


@pytest.mark.parametrize(
    ("preset", "settings", "complaint"),
    [
        ("bords", {}, "bords: no such preset"),
        ("tiny", {"layers": 2}, "model tiny: has a shape already"),
        ("tiny", {"start": "tiny"}, "start: Extra inputs"),
        ("tiny", {"dtype": "int8"}, "dtype: "),
        ("tiny", {"designs_from": 0, "presets": []}, "presets: names none"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(preset: str, settings: dict[str, Any], complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        load_recipe(None, settings, warm_start(preset))


def lesson(**changes: Any) -> list[dict[str, Any]]:
    mixture = {"strata": {4: {}}, "grid": {"hole_ratio": [0.2]}}
    return [{"name": "x", "environment": {"options": {"agents": 2}}, "taught": mixture, **changes}]


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"step": 100}, "step: Extra inputs are not permitted"),
        ({"steps": "many"}, r"steps: .*\(got 'many'\)"),
        ({"heads": 3}, "hidden_size 128 does not give 3 heads"),
        ({"steps": 100, "warmup_steps": 60}, "warmup_steps 60 end after decay_from 0.5 of 100 steps"),
        ({"layers": None}, "model: is missing; name a chat model, or give hidden_size"),
        ({"lora": {"r": 8}}, "lora and dtype: are for weights that are there"),
        ({"lessons": lesson(environment={"options": {"agents": 9}})}, "environment.options: agents: "),
        ({"lessons": lesson(prompt_style="loud")}, "prompt_style 'loud' is not one of"),
        ({"lessons": lesson(taught={"strata": {2: {}}})}, "taught.strata: '2' is none of 3, 4"),
        ({"lessons": lesson(taught={"strata": {4: {"holes": 1}}})}, "taught.holes: there is no such knob"),
    ],
)
def test_a_recipe_that_cannot_work_is_refused_with_its_file_and_field(
    overrides: dict[str, Any], complaint: str
):
    with pytest.raises(ConfigError, match=f"recipe.yaml: .*{complaint}"):
        load_recipe(None, overrides)
