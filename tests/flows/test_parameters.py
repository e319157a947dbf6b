"""The parameters of the flows: what a form shows, what it means, what is stored."""

import json
from pathlib import Path

import pytest
from prefect.utilities.callables import parameter_schema

from envgen.errors import ConfigError, ModelError
from flows.compare import compare
from flows.curriculum import curriculum
from flows.parameters import ComparisonOptions, CurriculumOptions, chosen_comparison, chosen_curriculum
from infra.comparison.spec import open_comparison
from infra.config.preset import load_preset
from infra.runs.files import CURRICULUM, Curriculum
from infra.runs.run import Run


@pytest.mark.parametrize("flow", [curriculum, compare])
def test_every_field_of_a_form_has_a_title_its_meaning_its_range_and_its_choices(flow):
    schema = parameter_schema(flow.fn)
    fields = {name: field for name, field in schema.properties.items() if name != "options"}
    assert all(len(field["description"]) > 20 for field in fields.values()), fields
    options = next(model for name, model in schema.definitions.items() if name.endswith("Options"))
    for name, field in options["properties"].items():
        assert field["title"], name
        assert field["description"], name
    fields = CurriculumOptions.model_json_schema()["properties"]
    assert (fields["stages"]["minimum"], fields["stages"]["maximum"]) == (1, 100)
    assert {"checkpoint", "frontier"} <= set(fields["engineer"]["enum"])
    assert fields["approval"]["enum"] == ["none", "required"]


def test_the_name_of_a_run_stands_for_its_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path))
    preset = load_preset("micro", {"instances": 24, "engineer.name": "bandit"})
    Run(directory=tmp_path / "mine").write(CURRICULUM, Curriculum(name="mine", preset=preset))
    assert chosen_curriculum("mine", "", CurriculumOptions()) == (preset, "mine")
    longer, name = chosen_curriculum("mine", "other", CurriculumOptions(stages=5))
    assert (longer.stages, longer.instances, name) == (5, 24, "other")
    assert chosen_curriculum(preset.model_dump_json(), "whole", CurriculumOptions()) == (preset, "whole")
    with pytest.raises(ConfigError, match="yours: no such preset"):
        chosen_curriculum("yours", "", CurriculumOptions())
    spec, _ = chosen_comparison("mine", "", ComparisonOptions(engineers=["bandit"], seeds=[preset.seed]))
    assert spec.base.model_copy(update={"test": None}) == preset
    taken = "--name tiny: is the name of a shipped preset"
    with pytest.raises(ConfigError, match=taken):
        chosen_curriculum("micro", "tiny", CurriculumOptions())
    with pytest.raises(ConfigError, match=taken):
        chosen_comparison("micro", "tiny", ComparisonOptions())


def test_the_name_of_a_comparison_stands_for_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path))
    asked = ComparisonOptions(engineers=["random", "fixed"], seeds=[3], settings={"instances": 24})
    spec, text = chosen_comparison("micro", "mine", asked)
    opened = open_comparison(tmp_path / "mine", spec, text)
    assert chosen_comparison("mine", "", ComparisonOptions()) == (opened, text)
    written = tmp_path / "written.yaml"
    written.write_text(text)
    assert chosen_comparison(str(written), "", ComparisonOptions()) == (spec, text)
    for source in ("mine", str(written)):
        with pytest.raises(ConfigError, match="takes no options; write them into the file, or name its"):
            chosen_comparison(source, "", ComparisonOptions(seeds=[4]))


@pytest.mark.parametrize(
    ("chosen", "options"),
    [
        (chosen_curriculum, CurriculumOptions(settings={"model": "./nowhere"})),
        (chosen_comparison, ComparisonOptions(model="./nowhere")),
    ],
)
def test_weights_that_are_not_there_are_named_before_anything_runs(chosen, options):
    with pytest.raises(ModelError, match="no checkpoint there"):
        chosen("micro", "", options)


def test_options_override_the_preset_and_what_is_left_out_keeps_its_value():
    preset, name = chosen_curriculum("micro", "", CurriculumOptions(seed=3))
    assert (preset.stages, preset.seed, name) == (2, 3, "micro-checkpoint-V6-s3")
    options = CurriculumOptions(stages=3, gate="rollback", approval="required", settings={"instances": 24})
    preset, name = chosen_curriculum("micro", "mine", options)
    assert (preset.stages, preset.engineer.gate, preset.approval) == (3, "rollback", "required")
    assert (preset.instances, name) == (24, "mine")
    stored = json.loads(CurriculumOptions(engineer="random", settings={"instances": 24}).model_dump_json())
    assert stored == {"engineer": "random", "settings": {"instances": 24}}, "what is left out is not stored"
    assert CurriculumOptions.model_validate(stored).overrides == {"engineer.name": "random", "instances": 24}
