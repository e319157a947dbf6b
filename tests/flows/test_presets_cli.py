"""`envwright presets`, `engineers` and `new preset`."""

import json
from pathlib import Path

import pytest
from support.presets import EVERY

from engineer.engineers.registry import known_engineers
from envgen.registry import ENVIRONMENTS
from infra.config.preset import Preset, load_preset, shipped_presets


def test_presets_and_engineers_are_listed_for_people_and_for_programs(envwright):
    listed = json.loads(envwright("presets", "--json").out)
    assert [preset["name"] for preset in listed["presets"]] == list(shipped_presets())
    assert all(row["description"] for row in listed["presets"])
    modules = {row["name"]: row["module"] for row in listed["environments"]}
    assert list(modules) == ENVIRONMENTS.names()
    assert modules["sums"] == "envgen.sums"
    printed = envwright("presets").out
    assert all(name in printed for name in (*shipped_presets(), *modules))
    engineers = {one["name"]: one for one in json.loads(envwright("engineers", "--json").out)}
    assert list(engineers) == known_engineers()
    assert all(one["proposes"] for one in engineers.values())
    assert engineers["checkpoint"]["needs"] == "the policy just trained"
    assert engineers["openai"]["needs"] == "option model"
    assert engineers["frontier"]["needs"] == ""


@pytest.mark.parametrize("source", EVERY)
def test_a_preset_of_ones_own_equals_its_source_and_explains_its_fields(envwright, tmp_path, source):
    assert envwright("new", "preset", "mine", "--from", source).code == 0
    preset, shipped = load_preset(str(tmp_path / "mine.yaml")), load_preset(source)
    assert (shipped.name, bool(shipped.description)) == (source, True)
    assert preset == shipped.model_copy(update={"name": "mine"})
    assert Preset.model_validate(preset.model_dump(mode="json")) == preset
    described = "# Stages of training, each on its own config. A finished run can be extended by more.\n"
    assert f"{described}stages: " in (tmp_path / "mine.yaml").read_text()


def test_it_replaces_nothing_and_takes_no_name_of_a_shipped_one(refused, tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("precious")
    refused(["new", "preset", "mine"], "mine.yaml: exists already")
    refused(["new", "preset", "tiny"], "tiny: is the name of a shipped preset")
    refused(["new", "preset", "a/b"], "NAME 'a/b'")
    refused(["new", "preset", "other", "--from", "nowhere"], "nowhere: no such preset")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]
    assert (tmp_path / "mine.yaml").read_text() == "precious"


def test_a_preset_whose_files_lie_elsewhere_is_not_left_behind(envwright, refused, tmp_path: Path):
    (tmp_path / "there").mkdir()
    assert envwright("new", "environment", "riddles").code == 0
    (tmp_path / "riddles.py").rename(tmp_path / "there" / "riddles.py")
    (tmp_path / "riddles.yaml").rename(tmp_path / "there" / "riddles.yaml")
    refused(["new", "preset", "mine", "--from", "there/riddles.yaml"], "riddles.py")
    assert not (tmp_path / "mine.yaml").exists()
