from pathlib import Path

import pytest
from support.engineer_package import install_engineer

from envgen.errors import ConfigError, EnvwrightError, RunDirectoryError
from infra.analysis.spec import ComparisonSpec, Stage0, open_comparison, plan, read_comparison


def labels(engineers: str) -> str:
    return ",".join(arm.label for arm in plan("micro", engineers.split(","), [0]).arms)


def test_every_engineer_is_run_with_every_seed_one_seed_after_the_other():
    spec = plan("micro", ["fixed", "checkpoint"], [3, 1])
    names = [child.name for child in spec.children]
    assert names == ["fixed-s3", "checkpoint-V6-s3", "fixed-s1", "checkpoint-V6-s1"]
    assert spec.name == "compare-micro"


def test_an_engineer_that_reads_a_context_has_its_own_variant_or_that_of_the_preset():
    assert labels("checkpoint:V1,checkpoint,random,base:V2") == "checkpoint-V1,checkpoint-V6,random,base-V2"


@pytest.mark.parametrize("reads", [True, False])
def test_an_engineer_of_another_package_says_whether_it_reads_the_context(
    reads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source = f"""
from engineer.contract import Engineer

def propose(context, options, brief):
    return brief.exactly(context, context.current.config, "As before.")

ENGINEER = Engineer(propose, reads_context={reads})
"""
    install_engineer(tmp_path, monkeypatch, source)
    assert labels("tidal,fixed") == ("tidal-V6,fixed" if reads else "tidal,fixed")
    if not reads:
        with pytest.raises(EnvwrightError, match="'tidal' reads no context"):
            labels("tidal:V1")


@pytest.mark.parametrize(
    ("stage_0", "seeds_of_stage_0", "roots"),
    [
        ("one", [3, 3, 3, 3], {"shared": 3}),
        ("per-seed", [3, 3, 1, 1], {"shared-s3": 3, "shared-s1": 1}),
    ],
)
def test_curricula_share_one_stage_0_or_that_of_their_seed(
    stage_0: Stage0, seeds_of_stage_0: list[int], roots: dict[str, int]
):
    spec = plan("micro", ["fixed", "random"], [3, 1], stages=4, stage_0=stage_0)
    presets = [child.preset for child in spec.children]
    assert [preset.stage_seed(0) for preset in presets] == seeds_of_stage_0
    assert [preset.stage_seed(1) for preset in presets] == [3, 3, 1, 1]
    assert {preset.stages for preset in presets} == {4}
    assert {root.name: root.preset.stage_seed(0) for root in spec.roots} == roots
    assert {(root.preset.stages, root.preset.engineer.name) for root in spec.roots} == {(1, "fixed")}
    assert [roots[child.root] for child in spec.children] == seeds_of_stage_0


def test_a_registered_comparison_is_not_continued_under_another_text(tmp_path: Path):
    text = tmp_path / "expected.md"
    text.write_text("No difference.")
    registered = wanted(registration=str(text))
    open_comparison(tmp_path / "run", registered)
    assert open_comparison(tmp_path / "run", wanted(registration=str(text))) == registered
    (tmp_path / "moved.md").write_text(text.read_text())
    open_comparison(tmp_path / "run", wanted(registration=str(tmp_path / "moved.md")))
    with pytest.raises(RunDirectoryError, match="another registration"):
        open_comparison(tmp_path / "run", wanted())
    text.write_text("A difference of 5 points.")
    with pytest.raises(RunDirectoryError, match="another registration"):
        open_comparison(tmp_path / "run", wanted(registration=str(text)))
    with pytest.raises(ConfigError, match=r"--registration .*nothing.md: no such file"):
        wanted(registration=str(tmp_path / "nothing.md"))


def test_options_belong_to_the_engineer_that_the_preset_names():
    settings = {"engineer.name": "frontier", "engineer.options.low": 0.1}
    spec = plan("micro", ["levels", "frontier"], [0], settings=settings)
    levels, frontier = (child.preset.engineer for child in spec.children)
    assert frontier.options["low"] == 0.1
    assert "low" not in levels.options


@pytest.mark.parametrize(
    ("engineers", "seeds", "more", "complaint"),
    [
        ("randm", "0", {}, "did you mean 'random'"),
        ("checkpoint:V7", "0", {}, "there is no context variant 'V7'; did you mean V"),
        ("checkpoint:v6", "0", {}, "did you mean V6"),
        ("random:V1", "0", {}, "'random' reads no context"),
        ("random,random", "0", {}, "random would be run twice"),
        ("checkpoint:V6,checkpoint", "0", {}, "checkpoint-V6 would be run twice"),
        ("random,,fixed", "0", {}, "there is no engineer ''"),
        ("random", "0,0", {}, "a seed is named twice"),
        (
            "random",
            "0",
            {"settings": {"seed": 3}},
            "--set seed: a comparison sets it for each curriculum; use --seeds",
        ),
        ("random", "0", {"settings": {"instances": 0}}, "instances"),
        ("random", "0", {"stages": 0}, "stages"),
        ("replay", "0", {}, "replay"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(
    engineers: str, seeds: str, more: dict, complaint: str
):
    with pytest.raises(EnvwrightError) as refused:
        plan("micro", engineers.split(","), [int(seed) for seed in seeds.split(",")], **more)
    assert complaint in str(refused.value)


def wanted(engineer: str = "fixed", seeds: tuple[int, ...] = (0,), **more) -> ComparisonSpec:
    return plan("micro", [engineer], seeds, name="mine", **more)


def test_a_new_directory_is_claimed_and_the_same_comparison_finds_it(tmp_path: Path):
    directory = tmp_path / "mine"
    assert open_comparison(directory, wanted()) == wanted() == read_comparison(directory)
    before = (directory / "comparison.json").stat().st_mtime_ns
    assert open_comparison(directory, wanted()) == wanted()
    assert (directory / "comparison.json").stat().st_mtime_ns == before


def test_engineers_seeds_and_stages_may_be_added_and_stage_0_stays(tmp_path: Path):
    open_comparison(tmp_path, wanted("fixed", (5,)))
    whole = open_comparison(tmp_path, wanted("random", (2, 1), stages=4))
    assert [arm.label for arm in whole.arms] == ["fixed", "random"]
    assert whole.seeds == (5, 2, 1)
    assert whole.preset.stages == 4
    assert {child.preset.stage_seed(0) for child in whole.children} == {5}
    assert read_comparison(tmp_path) == whole
    assert open_comparison(tmp_path, wanted(stages=2)).preset.stages == 4, "fewer stages take none away"


def test_another_preset_and_a_directory_of_something_else_are_refused(tmp_path: Path):
    open_comparison(tmp_path / "mine", wanted())
    with pytest.raises(RunDirectoryError, match=r"instances: 16 there, 24 here.*--name"):
        open_comparison(tmp_path / "mine", wanted(settings={"instances": 24}))
    (tmp_path / "curriculum.json").write_text("{}")
    with pytest.raises(RunDirectoryError, match="is no comparison"):
        open_comparison(tmp_path, wanted())
    (tmp_path / "comparison.json").write_text("{")
    with pytest.raises(RunDirectoryError, match="damaged"):
        open_comparison(tmp_path, wanted())
