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


def test_an_environment_is_taught_evenly_with_knobs_in_the_middle_of_their_ranges():
    recipe = load_recipe(None, {}, warm_start("some/model", "sums", "plain"))
    [lesson] = recipe.lessons
    assert (recipe.model, recipe.presets, recipe.designs_from) == ("some/model", ("micro-sums",), 1)
    [(_, config)] = lesson.taught.parts(lesson.task.space)
    assert {name: (part.data_ratio, part.knobs) for name, part in config.strata.items()} == {
        name: (pytest.approx(1 / 3), {"digits": 3.5, "carry_ratio": 0.5}) for name in "234"
    }
    boards = load_recipe(None, {}, warm_start("some/model"))
    assert (boards.lessons[0].environment.name, boards.lessons[0].style) == ("mapf-frozenlake", "board")
    assert {"tiny", "smollm2-135m"} <= set(boards.presets)


def test_a_preset_says_model_environment_style_and_mixture_and_holds_its_validation_set_out():
    preset = load_preset("smollm2-135m")
    recipe = load_recipe(None, {}, warm_start(None, preset="smollm2-135m"))
    [lesson] = recipe.lessons
    assert (recipe.model, recipe.presets) == (preset.model, ("smollm2-135m",))
    assert (lesson.environment, lesson.style) == (preset.environment, "board")
    assert [config for _, config in lesson.taught.parts(lesson.task.space)] == [preset.default_config]
    assert recipe.longest_answer == preset.max_answer_tokens
    other = load_recipe(None, {}, warm_start("mine", style="compact", preset="smollm2-135m"))
    assert (other.model, other.lessons[0].style) == ("mine", "compact")


def test_a_recipe_with_a_model_may_leave_out_how_it_is_trained(tmp_path: Path):
    path = tmp_path / "warm.yaml"
    path.write_text("model: x\nsteps: 30\nlessons: [{name: sums, environment: {name: sums}}]\n")
    recipe = load_recipe(path, {"save_steps": 7})
    assert (recipe.steps, recipe.save_steps, recipe.batch_size) == (30, 7, 8)
    assert (recipe.muon_learning_rate, recipe.designs_from) == (None, 1)


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"model": None, "environment": "sums"}, {}, "--model: missing; name the chat model"),
    ({"model": "x", "environment": "bords"}, {}, "there is no environment 'bords'"),
    ({"model": "x", "environment": "sums", "style": "loud"}, {}, "--style loud: sums has plain"),
    ({"model": "x", "environment": "sums", "preset": "tiny"}, {}, "--environment sums: the preset tiny says"),
    ({"model": "x", "preset": "bords"}, {}, "bords: no such preset"),
    ({"model": "x"}, {"layers": 2}, "model x: has a shape already"),
    ({"model": "x"}, {"start": "tiny"}, "start: Extra inputs"),
    ({"model": "x"}, {"dtype": "int8"}, "dtype: "),
    ({"model": "x"}, {"designs_from": 0, "presets": []}, "presets: names none"),
]


@pytest.mark.parametrize(("given", "settings", "complaint"), WRONG, ids=[case[2] for case in WRONG])
def test_options_that_cannot_work_are_refused_by_name(
    given: dict[str, Any], settings: dict[str, Any], complaint: str
):
    with pytest.raises(ConfigError, match=complaint):
        load_recipe(None, settings, warm_start(**given))


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
