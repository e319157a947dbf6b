"""What a comparison file means: its arms, its curricula, its registration."""

from pathlib import Path

import pytest
from support.comparisons import comparison
from support.engineer_package import install_engineer

from engineer.engineers.registry import function_engineer
from envgen.errors import EnvwrightError, RunDirectoryError
from envgen.yaml_files import dump_yaml
from infra.comparison.file import is_comparison_file, read_comparison_file, short_form
from infra.comparison.plan import plan
from infra.comparison.spec import ComparisonSpec, open_comparison, read_comparison, resolve_comparison
from infra.config.preset import load_preset

FILE = {
    "name": "guards",
    "preset": "micro",
    "seeds": [5, 6],
    "primary": "gentle",
    "arms": {
        "fixed": None,
        "random": {},
        "levels": {"engineer": "levels"},
        "gentle": {"set": {"trl": {"learning_rate": 1e-5}}},
        "checkpoint-V1": {"engineer": "checkpoint:V1"},
    },
}
FEW = {name: FILE["arms"][name] for name in ("fixed", "gentle")}


def spec_of(folder: Path, **more: object) -> ComparisonSpec:
    path = folder / "comparison.yaml"
    path.write_text(dump_yaml(FILE | more))
    file, _ = read_comparison_file(path)
    return resolve_comparison(file)


def labels(engineers: str) -> str:
    return ",".join(comparison(*engineers.split(",")).presets)


def test_an_arm_has_the_engineer_that_it_names_or_is_named_after_and_what_it_sets(tmp_path: Path):
    presets = spec_of(tmp_path).presets
    engineers = [(preset.engineer.name, preset.engineer.context) for preset in presets.values()]
    assert [*presets] == [*FILE["arms"]]
    names = ("fixed", "random", "levels", "checkpoint")
    assert engineers == [*((name, "V6") for name in names), ("checkpoint", "V1")]
    trl = presets["fixed"].trl
    changed = {label: preset.trl for label, preset in presets.items() if preset.trl != trl}
    assert changed == {"gentle": trl | {"learning_rate": 1e-5}}
    assert all(preset.test for preset in presets.values()), "a test set by default"


def test_an_arm_is_a_function_beside_its_file_and_a_changed_one_is_another_arm(tmp_path: Path):
    code = tmp_path / "mine.py"
    code.write_text("def propose(context, step=1):\n    return {}\n")
    arms = {"fixed": {}, "mine": {"engineer": "./mine.py:propose"}}
    preset = spec_of(tmp_path, arms=arms, primary="mine").presets["mine"]
    assert (preset.engineer.name, preset.engineer.options) == (f"{code}:propose", {"step": 1})
    assert load_preset(preset.model_dump_json()) == preset
    file, _ = short_form("micro", ["fixed", f"{code}:propose"], [0])
    assert [*file.arms] == ["fixed", "mine"]
    code.write_text(code.read_text() + "# another\n")
    function_engineer.cache_clear()  # another process
    with pytest.raises(EnvwrightError, match=f"{code} changed since the run began; put it back"):
        load_preset(preset.model_dump_json())


def test_every_arm_is_run_with_every_seed_and_arms_that_train_stage_0_alike_share_it(tmp_path: Path):
    spec = spec_of(tmp_path)
    names = [child.name for child in spec.children]
    assert names == [f"{label}-s{seed}" for seed in (5, 6) for label in FILE["arms"]]
    roots = {child.arm: child.root for child in spec.children if child.preset.seed == 6}
    assert roots == dict.fromkeys(FILE["arms"], "shared-s6") | {"gentle": "shared-gentle-s6"}
    assert [(root.name, root.preset.seed) for root in spec.roots] == [
        *(("shared-s5", 5), ("shared-gentle-s5", 5), ("shared-s6", 6), ("shared-gentle-s6", 6))
    ]
    assert {(root.preset.stages, root.preset.engineer.name) for root in spec.roots} == {(1, "fixed")}
    assert {child.preset.stages for child in spec.children} == {2}


def test_a_budget_is_shared_by_the_stages(tmp_path: Path):
    budgets = ({"steps": 12}, {"tokens": 999}, {"seconds": 7})
    steps, tokens, seconds = (spec_of(tmp_path, budget=budget, arms=FEW).base for budget in budgets)
    stages = steps.stages
    assert steps.trl["max_steps"] == 12 // stages
    assert tokens.training.max_tokens == 999 // stages
    assert seconds.training.max_seconds == 7 / stages


def test_the_short_form_writes_the_file_that_means_the_same(tmp_path: Path):
    settings = {"engineer.name": "frontier", "engineer.options.low": 0.1}
    file, text = short_form("micro", ["levels", "frontier", "checkpoint:V1"], [0], settings)
    path = tmp_path / "written.yaml"
    path.write_text(text)
    assert is_comparison_file(str(path))
    assert read_comparison_file(path) == (file, text)
    levels, frontier, _ = resolve_comparison(file).presets.values()
    assert frontier.engineer.options["low"] == 0.1, "options belong to the engineer that the preset names"
    assert "low" not in levels.engineer.options
    assert labels("checkpoint:V1,checkpoint,random,base:V2") == "checkpoint-V1,checkpoint-V6,random,base-V2"


@pytest.mark.parametrize("reads", [True, False])
def test_an_engineer_of_another_package_says_whether_it_reads_the_context(reads: bool, tmp_path, monkeypatch):
    head = "from engineer.contract import Engineer\nclass ENGINEER(Engineer):\n"
    install_engineer(tmp_path, monkeypatch, f"{head}    reads_context = {reads}\n")
    assert labels("tidal,fixed") == ("tidal-V6,fixed" if reads else "tidal,fixed")
    if not reads:
        with pytest.raises(EnvwrightError, match="'tidal' reads no context"):
            labels("tidal:V1")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"seeds": [0, 0]}, "seeds: 0 is named twice"),
        ({"seeds": []}, "seeds"),
        ({"arms": {}}, "arms"),
        ({"arms": {"shared-x": {}}, "primary": ""}, "the names that begin with 'shared'"),
        ({"arms": {"a/b": {}}, "primary": ""}, "arms"),
        ({"primary": "gentl"}, "primary: 'gentl' is no arm; known are fixed"),
        ({"primary": "fixed"}, "primary: 'fixed' is the first baseline"),
        ({"baselines": ["rand"]}, "baselines: 'rand' is no arm"),
        ({"budget": {"steps": 2, "tokens": 3}}, "exactly one of steps, tokens and seconds"),
        ({"budget": {"tokens": 1}}, "budget.tokens: 1 cannot be shared by 2 stages"),
        ({"budget": {"steps": 13}}, "budget.steps: 13 cannot be shared by"),
        ({"budget": {"steps": 4}, "set": {"trl": {"max_steps": 9}}}, "trl.max_steps: the budget sets it"),
        ({"name": "micro"}, "name: 'micro' is the name of a shipped preset"),
        ({"arms": {"fixed": {}, "x": {"set": {"seed": 1}}}, "primary": "x"}, "arms.x.set.seed: is the same"),
        ({"arms": {"x": {"set": {"validation.seed": 1}}}, "primary": ""}, "arms.x.set.validation.seed"),
        ({"arms": {"x": {"engineer": "randm"}}, "primary": ""}, "arms.x: .*did you mean 'random'"),
        ({"arms": {"x": {"engineer": "random:V1"}}, "primary": ""}, "'random' reads no context"),
        ({"arms": {"x": {"engineer": "checkpoint:V7"}}, "primary": ""}, "V7"),
        ({"arms": {"x": {"set": {"trl.num_generations": 0}}}, "primary": ""}, "arms.x: .*num_generations"),
        ({"set": {"seed": 3}}, "--set seed: a comparison sets it"),
        ({"set": {"approval": "required"}}, "approval: required asks a person"),
        ({"preset": "mikro"}, "mikro: no such preset"),
        ({"test": "nothing.parquet"}, "nothing.parquet"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(tmp_path: Path, change: dict, complaint: str):
    with pytest.raises(EnvwrightError, match=complaint):
        spec_of(tmp_path, **change)


def test_engineers_of_the_short_form_are_named_once():
    for engineers in ("random,random", "checkpoint:V6,checkpoint"):
        with pytest.raises(EnvwrightError, match="would be run twice"):
            labels(engineers)
    for engineers, complaint in (("random,,fixed", "there is no engineer ''"), ("replay", "replay")):
        with pytest.raises(EnvwrightError, match=complaint):
            labels(engineers)


def opened(directory: Path, **more: object) -> ComparisonSpec:
    spec = spec_of(directory.parent, **more)
    return open_comparison(directory, spec, (directory.parent / "comparison.yaml").read_text())


def test_a_comparison_is_registered_once_and_arms_and_seeds_are_added_openly(tmp_path: Path):
    directory = tmp_path / "guards"
    first = opened(directory)
    assert opened(directory) == first == read_comparison(directory)
    assert [kept.finished for kept in first.registrations] == [0]
    whole = opened(directory, seeds=[7], arms=FILE["arms"] | {"bandit": {}})
    assert whole.file.seeds == (5, 6, 7)
    assert [*whole.presets] == [*FILE["arms"], "bandit"]
    assert len(whole.registrations) == 2
    assert whole.registrations[0] == first.registrations[0]
    assert read_comparison(directory) == whole
    assert {root.name for root in first.roots} < {root.name for root in whole.roots}


@pytest.mark.parametrize("budget", [None, {"steps": 4}, {"tokens": 40}, {"seconds": 4}])
def test_a_comparison_is_found_again_whatever_its_budget(tmp_path: Path, budget: dict | None):
    first = opened(tmp_path / "guards", budget=budget, arms=FEW)
    again = opened(tmp_path / "guards", budget=budget, arms=FEW, seeds=[5, 6, 7])
    assert again.presets == first.presets
    assert [kept.text for kept in again.registrations[:1]] == [kept.text for kept in first.registrations]


def test_an_added_baseline_does_not_change_what_the_others_are_tested_against(tmp_path: Path):
    arms = {"random": {}, "gentle": FEW["gentle"]}
    opened(tmp_path / "guards", arms=arms)
    whole = opened(tmp_path / "guards", arms=arms | {"fixed": {}})
    assert whole.file.baseline_arms == ("random",)
    assert whole.pairs == [("gentle", "random"), ("fixed", "random"), ("gentle", "fixed")]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"set": {"instances": 24}}, "instances: 16 there, 24 here"),
        ({"set": {"instances": 24}, "arms": {"bandit": {}}, "primary": ""}, "instances: 16 there, 24 here"),
        ({"baselines": ["random"]}, "baselines: .'fixed', 'random'. there, .'random',. here"),
        ({"arms": FEW | {"gentle": {"set": {"trl.learning_rate": 2e-5}}}}, "arms.gentle: trl.learning_rate"),
        ({"primary": "random"}, "primary: gentle there, random here"),
        ({"test": {"seed": 3}}, "test"),
        ({"budget": {"steps": 4}}, "budget"),
    ],
)
def test_a_comparison_is_not_continued_under_another_file(tmp_path: Path, change: dict, complaint: str):
    arms = FEW | {"random": {}}
    opened(tmp_path / "guards", arms=arms)
    with pytest.raises(RunDirectoryError, match=complaint):
        opened(tmp_path / "guards", **{"arms": arms, **change})


def test_a_directory_of_something_else_or_a_damaged_one_is_refused(tmp_path: Path):
    (tmp_path / "curriculum.json").write_text("{}")
    spec = comparison("fixed")
    with pytest.raises(RunDirectoryError, match="is no comparison"):
        open_comparison(tmp_path, spec, "")
    (tmp_path / "comparison.json").write_text("{")
    with pytest.raises(RunDirectoryError, match="damaged"):
        open_comparison(tmp_path, spec, "")


def test_the_plan_shows_smaller_differences_with_more_seeds_and_a_primary_arm():
    spec = comparison("fixed", "random", "levels", seeds=[0, 1, 2], settings={"test.instances": 90})
    rows = plan(spec.model_copy(update={"file": spec.file.model_copy(update={"primary": "levels"})}))
    assert [seeds for seeds in rows["seeds"] if "asked for" in seeds] == ["3 (asked for)"] * 2
    alone, together = (
        [float(cell.replace("none", "100")) for cell in rows[rows["tested"] == tested]["runs differ by 1"]]
        for tested in ("alone", "one of 5")
    )
    assert alone == sorted(alone, reverse=True)
    assert all(few < many for few, many in zip(alone, together, strict=True))
