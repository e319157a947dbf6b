"""Recipes made from the options of `envwright bootstrap`, and what a recipe with a model leaves out."""

from pathlib import Path
from typing import Any

import pytest

from envgen.errors import ConfigError
from infra.config.preset import load_preset
from infra.config.recipe import load_recipe, warm_start


def test_a_family_is_taught_evenly_with_knobs_in_the_middle_of_their_ranges():
    recipe = load_recipe(None, {}, warm_start("some/model", "sums", "plain"))
    [lesson] = recipe.lessons
    assert (recipe.model, recipe.presets, recipe.designs_from) == ("some/model", ("micro-sums",), 1)
    assert (lesson.name, lesson.family.name, lesson.style) == ("sums", "sums", "plain")
    [(_, config)] = lesson.taught.parts(lesson.task.space)
    assert {name: (part.data_ratio, part.knobs) for name, part in config.strata.items()} == {
        name: (pytest.approx(1 / 3), {"digits": 3.5, "carry_ratio": 0.5}) for name in "234"
    }
    assert lesson.evaluated == lesson.taught


def test_boards_are_taught_if_no_family_is_named():
    recipe = load_recipe(None, {}, warm_start("some/model"))
    assert (recipe.lessons[0].family.name, recipe.lessons[0].style) == ("mapf-frozenlake", "board")
    assert {"tiny", "smollm2-135m"} <= set(recipe.presets)
    assert not {"micro-sums", "tiny-puzzles"} & set(recipe.presets)


def test_a_preset_says_model_family_style_and_mixture_and_holds_its_validation_set_out():
    preset = load_preset("smollm2-135m")
    recipe = load_recipe(None, {}, warm_start(None, preset="smollm2-135m"))
    [lesson] = recipe.lessons
    assert (recipe.model, recipe.presets) == (preset.model, ("smollm2-135m",))
    assert (lesson.family, lesson.style) == (preset.family, "board")
    assert [config for _, config in lesson.taught.parts(lesson.task.space)] == [preset.default_config]
    assert recipe.longest_answer == preset.max_answer_tokens
    other = load_recipe(None, {}, warm_start("mine", style="compact", preset="smollm2-135m"))
    assert (other.model, other.lessons[0].style) == ("mine", "compact")


def test_a_recipe_with_a_model_may_leave_out_how_it_is_trained(tmp_path: Path):
    path = tmp_path / "warm.yaml"
    path.write_text("model: x\nsteps: 30\nlessons: [{name: sums, family: {name: sums}}]\n")
    recipe = load_recipe(path, {"save_steps": 7})
    assert (recipe.steps, recipe.save_steps, recipe.batch_size) == (30, 7, 8)
    assert (recipe.muon_learning_rate, recipe.designs_from) == (None, 1)
    assert list(recipe.lessons[0].evaluated.named(recipe.lessons[0].task.space)) == ["2", "3", "4"]


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"model": None, "family": "sums"}, {}, "--model: missing; name the chat model"),
    ({"model": "x", "family": "bords"}, {}, "there is no family 'bords'"),
    ({"model": "x", "family": "sums", "style": "loud"}, {}, "--style loud: sums has plain"),
    ({"model": "x", "preset": "micro-sums", "style": "loud"}, {}, "--style loud: sums has plain"),
    (
        {"model": "x", "family": "sums", "preset": "tiny"},
        {},
        "--family sums: the preset tiny says",
    ),
    ({"model": "x", "preset": "bords"}, {}, "bords: no such preset"),
    ({"model": "x"}, {"layers": 2}, "model x: has a shape and weights of its own"),
    ({"model": "x"}, {"start": "tiny"}, "model x: has a shape and weights of its own"),
    ({"model": "x"}, {"dtype": "int8"}, "dtype: "),
    ({"model": "x"}, {"designs_from": 0, "presets": []}, "presets: names none"),
]


@pytest.mark.parametrize(("given", "settings", "complaint"), WRONG, ids=[case[2] for case in WRONG])
def test_what_cannot_be_taught_is_refused_with_the_option_named(
    given: dict[str, Any], settings: dict[str, Any], complaint: str
):
    with pytest.raises(ConfigError, match=complaint):
        load_recipe(None, settings, warm_start(**given))


def test_a_recipe_without_a_model_needs_a_shape_and_has_no_adapters():
    shipped = {"lessons": [{"name": "sums", "family": {"name": "sums"}}], "steps": 300, "presets": ["tiny"]}
    with pytest.raises(ConfigError, match="model: is missing; name a chat model, or give hidden_size"):
        load_recipe(None, {"layers": 2, "heads": 2}, shipped)
    with pytest.raises(ConfigError, match="lora and dtype: are for weights that are there"):
        load_recipe(None, {"lora": {"r": 8}})
