"""Presets: those that are shipped, and what a file's fields come to."""

from pathlib import Path

import pytest
from small_preset import changed
from support.presets import EVERY

from envgen.mapf.space import Options, space_of
from infra.config.preset import Preset, ValidationSpec, load_preset, shipped_presets


@pytest.mark.parametrize("name", EVERY)
def test_every_shipped_preset_loads_under_its_own_name(name: str):
    preset = load_preset(name)
    assert preset.name == name
    assert preset.description
    assert Preset.model_validate(preset.model_dump(mode="json")) == preset


def test_the_presets_of_the_readme_are_shipped():
    assert {"tiny", "micro"} <= set(shipped_presets())


def test_presets_of_the_tiny_policy_ask_it_in_the_wording_it_was_taught(file: Path):
    for engineer in ("checkpoint", "base"):
        asked = load_preset("tiny", {"engineer.name": engineer}).effective_engineer()
        assert (asked.wording, asked.max_tokens) == ("compact", 160)
    large = {
        "engineer.name": "openai",
        "engineer.options.base_url": "http://localhost:8000/v1",
        "engineer.options.model": "large",
    }
    for asked in (
        load_preset("tiny", large).effective_engineer(),
        load_preset(str(file), {"model": "Qwen/Qwen3-4B"}).effective_engineer(),
    ):
        assert (asked.wording, asked.max_tokens) == ("full", 1024)


def test_a_preset_is_sparse_and_defaults_are_filled_in(file: Path):
    preset = load_preset(str(file))
    resolved = preset.model_dump(mode="json")
    assert (resolved["stages"], resolved["engineer"]["variant"], resolved["trl"]) == (3, "V6", {})
    options = {"agents": 2, "map_sizes": [3, 4], "min_hole_ratio": 0.0, "max_hole_ratio": 0.5}
    assert resolved["environment"] == {"name": "mapf-frozenlake", "options": options}
    assert resolved["rewards"] == {"format": 0.0, "valid": 1.0, "optimal": 0.5}
    assert set(resolved) == set(Preset.model_fields)


def test_a_preset_may_pay_for_partial_progress(file: Path):
    assert load_preset("tiny").rewards.weights == {"format": 0.0, "valid": 1.0, "optimal": 1.0}
    paid = load_preset(
        changed(file, "model: tiny", "model: tiny\nrewards: {arrived: 0.25}"), {"rewards.legal_share": 0.1}
    )
    assert paid.rewards.weights == {
        "format": 0.0,
        "valid": 1.0,
        "optimal": 0.5,
        "arrived": 0.25,
        "legal_share": 0.1,
    }


def test_a_learning_rate_without_a_point_is_a_number_in_a_file_too(file: Path):
    preset = load_preset(changed(file, "model: tiny", "model: tiny\ntrl: {learning_rate: 1e-4, beta: 2e-2}"))
    assert preset.trl == {"learning_rate": 1e-4, "beta": 0.02}


def test_a_design_that_no_policy_writes_needs_no_room():
    load_preset("qwen3-4b", {"engineer.max_tokens": 11_000, "engineer.name": "random"})


def test_validation_holds_the_same_number_of_every_class():
    spec = ValidationSpec(grid={"wait_ratio": (0.25, 0.75), "hole_ratio": (0.2, 0.3)}, instances=3)
    space = space_of(Options(map_sizes=(3, 5)))
    parts = spec.parts(space)
    assert len(parts) == len({purpose for purpose, _, _ in parts}) == 8
    assert {count for _, _, count in parts} == {3}
    classes = [
        (name, part["hole_ratio"], part["wait_ratio"])
        for _, config, _ in parts
        for name, part in config.strata.items()
    ]
    assert sorted(classes) == sorted(
        (name, hole, wait) for name in ("3", "5") for hole in (0.2, 0.3) for wait in (0.25, 0.75)
    )
    [(purpose, config, _)] = ValidationSpec(strata=("5",)).parts(space)
    assert (purpose, config.strata["5"].model_dump()) == (
        "validation-5",
        {"data_ratio": 1.0, "hole_ratio": 0.25, "wait_ratio": 0.5},
    )
