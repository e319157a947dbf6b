"""What a study registers, and which registrations are refused."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from envgen.errors import ConfigError
from envgen.mapf.test_suite import BoardSuite
from infra.analysis.study.export import take_over
from infra.analysis.study.records import stored_seeds
from infra.analysis.study.spec import STUDIES, StudySpec, load_study
from infra.config.preset import PRESETS, load_preset
from infra.runs.data import validation_instances

DOCS = Path(__file__).parents[4] / "docs" / "study"
SHIPPED = sorted(path.stem for path in STUDIES.glob("*.yaml"))
PLAIN = {
    "name": "short",
    "preset": "micro",
    "test": {
        "boards": {2: [7], 3: [4]},
        "wait_ratios": [0.5],
        "hole_ratios": [0.2],
        "instances": 4,
        "seed": 5,
        "answer_tokens": 64,
    },
    "rounds": [
        {
            "number": 1,
            "seeds": [1, 2],
            "primary": "checkpoint-V6",
            "groups": [{"engineers": ["fixed", "random", "checkpoint:V6"]}],
        }
    ],
}
TWO = PLAIN["rounds"][0]["groups"]


def study(folder: Path, **changes: object) -> StudySpec:
    path = folder / "short.yaml"
    path.write_text(yaml.safe_dump(PLAIN | changes))
    return load_study(str(path))


def a_round(**changes: object) -> list[dict]:
    return [{**PLAIN["rounds"][0], **changes}]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_study_asks_every_arm_with_enough_seeds(name: str):
    """Five where arms are compared with chance, three for curves alone."""
    spec = load_study(name)
    for one in spec.rounds:
        assert len(one.seeds) >= (5 if "random" in spec.arms(one) else 3)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_test_suite_is_drawn_whole_and_shares_no_instance_with_validation(name: str):
    spec = load_study(name)
    suite = spec.suite
    assert isinstance(suite, BoardSuite)
    drawn = [instance.problem for instance in suite.draw()]
    cells = sum(map(len, suite.boards.values())) * len(suite.wait_ratios) * len(suite.hole_ratios)
    assert len({problem.id for problem in drawn}) == len(drawn) == cells * suite.instances
    seen = {instance.id for instance in validation_instances(load_preset(spec.preset))}
    assert not seen & {problem.id for problem in drawn}
    assert {(problem.num_agents, problem.size) for problem in drawn} == {
        (agents, size) for agents, sizes in suite.boards.items() for size in sizes
    }


@pytest.mark.slow
def test_the_study_that_would_decide_asks_a_real_model_what_the_last_round_asked_the_tiny_one():
    spec, last = load_study(str(DOCS / "decide.yaml")), load_study("small").rounds[-1]
    one = spec.round(1)
    assert load_preset(spec.preset).model == "Qwen/Qwen3-4B"
    assert set(load_study("small").arms(last)) <= set(spec.arms(one))
    assert (one.primary, one.stage_0) == (last.primary, last.stage_0)
    assert len(one.seeds) >= 5


@pytest.mark.parametrize(
    ("name", "data", "policies"),
    [
        ("small", DOCS, ["tiny-wide", "tiny-waits"]),
        ("strong", DOCS.parent / "strong" / "study", ["tiny-round-3"]),
        ("hour", DOCS.parent / "hour" / "study", ["tiny-round-3"]),
    ],
)
def test_rounds_whose_policies_are_not_here_are_what_was_registered_and_are_not_run(
    name: str, data: Path, policies: list[str]
):
    spec = load_study(name)
    for one, policy in zip(spec.rounds, policies, strict=True):
        stored = json.loads((data / one.folder / "curricula.json").read_text())
        assert spec.registered(one) == stored["registered"]
        with pytest.raises(
            ConfigError, match=rf"round {one.number}: cannot be run: {policy}: .* docs/\S+/registration.md"
        ):
            spec.to_run([one.number])


def test_the_stored_seeds_of_round_3_are_of_the_registered_study_and_can_be_gone_on_from(tmp_path: Path):
    strong, data = load_study("strong"), tmp_path / "study"
    one, folder = strong.round(3), DOCS.parent / "strong" / "study"
    for name in ("test.parquet", "validation.parquet"):
        data.mkdir(exist_ok=True)
        (data / name).symlink_to(folder / name)
    take_over(data, strong, one, folder)
    assert stored_seeds(data, 3) == stored_seeds(folder, 3) == one.seeds[: len(stored_seeds(folder, 3))]


def test_rounds_are_run_by_their_numbers_or_all(tmp_path: Path):
    spec = study(tmp_path, rounds=[*a_round(), {**PLAIN["rounds"][0], "number": 2, "seeds": [3, 4]}])
    assert spec.to_run() == [(spec.round(1), (1, 2)), (spec.round(2), (3, 4))]
    assert [one.number for one, _ in spec.to_run([2])] == [2]
    last = spec.round(2).seeds[-1]
    assert spec.to_run(seeds=[last]) == [(spec.round(2), (last,))], "no round without one of the seeds"
    elsewhere = study(tmp_path, rounds=a_round(settings={"model": str(tmp_path / "nowhere")}))
    with pytest.raises(ConfigError, match=r"round 1: cannot be run: .*nowhere: no checkpoint there"):
        elsewhere.to_run([])


def test_a_preset_of_its_own_is_found_from_the_file_of_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "presets").mkdir()
    shutil.copy(PRESETS / "micro.yaml", tmp_path / "presets" / "mine.yaml")
    monkeypatch.chdir(tmp_path / "presets")
    mine = study(tmp_path, preset="presets/mine.yaml")
    assert load_preset(mine.preset) == load_preset("micro")
    assert mine.registered(mine.round(1)) == study(tmp_path).registered(mine.round(1)), (
        "where a preset is decides nothing"
    )


def test_arms_of_another_group_carry_its_name(tmp_path: Path):
    piloted = {"engineer.candidates": 3, "engineer.pilot": 8}
    groups = [
        {"engineers": ["fixed", "random"]},
        {"name": "piloted", "engineers": ["random", "checkpoint:V6"], "settings": piloted},
    ]
    spec = study(tmp_path, rounds=a_round(groups=groups, primary="checkpoint-V6+piloted"))
    one = spec.round(1)
    assert spec.arms(one) == ["fixed", "random", "random+piloted", "checkpoint-V6+piloted"]
    assert [
        (arm.preset or spec.comparison(one).preset).engineer.candidates for arm in spec.comparison(one).arms
    ] == [1, 1, 3, 3]


def test_what_is_registered_changes_with_all_that_decides_the_round(tmp_path: Path):
    plain = study(tmp_path)
    digests = {plain.registered(plain.round(1))}
    for changes in (
        {"rounds": a_round(seeds=[1, 3])},
        {"test": {**PLAIN["test"], "seed": 6}},
        {"preset": "tiny"},
    ):
        other = study(tmp_path, **changes)
        digests.add(other.registered(other.round(1)))
    assert len(digests) == 4
    again = study(tmp_path)
    assert again.registered(again.round(1)) in digests


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"rounds": a_round(groups=[{"engineers": ["checkpoint:V6", "frontier"]}])}, "lack a baseline"),
        ({"rounds": a_round(primary="levels")}, "lack levels"),
        (
            {"rounds": a_round(primary="fixed", groups=[{"engineers": ["fixed", "frontier"]}])},
            "lack a baseline for fixed",
        ),
        (
            {
                "rounds": a_round(
                    groups=[{"engineers": ["fixed", "random", "checkpoint:V6"]}, {"engineers": ["random"]}]
                )
            },
            "names an arm twice",
        ),
        ({"rounds": a_round() + a_round()}, "a number is used twice"),
        ({"rounds": [*a_round(), {**PLAIN["rounds"][0], "number": 2}]}, "a round needs fresh ones"),
        ({"test": {**PLAIN["test"], "boards": {2: [5, 7]}}}, r"\[5\] are trained on"),
        (
            {
                "rounds": a_round(
                    groups=[*TWO, {"name": "more", "engineers": ["random"], "settings": {"instances": 32}}]
                )
            },
            "than the first group .instances",
        ),
        (
            {
                "rounds": a_round(
                    groups=[*TWO, {"name": "long", "engineers": ["random"], "settings": {"stages": 4}}]
                )
            },
            "than the first group .stages",
        ),
        (
            {"rounds": a_round(groups=[{**TWO[0], "settings": {"validation.strata": ["3", "4"]}}])},
            "settings change validation",
        ),
        ({"rounds": a_round(settings={"family.options.agents": 3})}, "settings change family"),
        ({"preset": "micro-sums"}, "the family sums has no test suite"),
        ({"tset": {}}, "tset"),
        ({"test": {**PLAIN["test"], "instances": 0}}, "test: instances: Input should be greater"),
    ],
)
def test_a_registration_that_could_not_answer_is_refused(tmp_path: Path, changes: dict, complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        study(tmp_path, **changes)


def test_an_unknown_study_or_round_is_answered_with_those_there_are(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"the shipped ones are .*small"):
        load_study("large")
    with pytest.raises(ConfigError, match="has the rounds 1"):
        study(tmp_path).round(9)
