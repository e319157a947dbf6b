"""What a round's run directories become in the study's data."""

import dataclasses
import re
from pathlib import Path

import pytest
from study_rounds import SPEC, completions, rising, run, small_sets

from envgen.dataset import write_dataset
from envgen.errors import DataError, RunDirectoryError
from envgen.files import write_json
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.verifier import verify
from infra.analysis.gather import final
from infra.analysis.spec import SHARED, open_comparison, shared_policy
from infra.analysis.study.export import RoundFolder, policies_to_test, store_round, take_over
from infra.analysis.study.findings import find, policies
from infra.analysis.study.records import SetName, read_answers, read_round, stored_seeds
from infra.runs.run import new_curriculum
from infra.runs.steps import stage_directory
from policy.rollouts import Rollout, write_rollouts


def answered(directory: Path, name: SetName, right: int, found: list[Instance] | None = None) -> None:
    found = found or small_sets()[name]
    texts = completions(found, right)
    rollouts = [
        Rollout(instance=i, completion=t, completion_tokens=3, truncated=False, verdict=verify(i, t))
        for i, t in zip(found, texts, strict=True)
    ]
    write_rollouts(directory / "rollouts.parquet", rollouts, PromptStyle.COMPACT)


def finish(folder: RoundFolder) -> None:
    """Leave what the curricula of a round leave: stage 0, one more stage each, tests of start, stage 0 and
    each final policy."""
    sets = small_sets()
    for policy, stage in policies_to_test(folder, []):
        answered(folder.evaluated(policy, stage).directory, "validation", rising(policy, stage, "validation"))
        answered(folder.test(policy, stage).directory, "test", rising(policy, stage, "test"))
    for child in folder.comparison.children:
        directory = folder.path / child.name
        made = run(child.arm.label, child.seed, rising, sets["validation"], folder.round.stage_0)
        write_json(
            directory / "curriculum.json", new_curriculum(child.name, folder.comparison.preset_of(child))
        )
        write_json(directory / "results.json", made.results.model_copy(update={"curriculum": child.name}))
        for evaluated in (directory, folder.path / folder.comparison.root(child.seed)):
            answered(evaluated / "start", "validation", rising(SHARED, -1, "validation"))
        for stage in made.results.stages:
            where = stage_directory(directory, stage.stage)
            policy = made.policy if stage.stage else shared_policy(0, folder.round.stage_0, child.seed)
            answered(where, "validation", rising(policy, stage.stage, "validation"))
            manifest = {
                "code": f"1.{stage.stage}",
                "tokens": {"training": 100, "evaluation": 10, "engineer_prompt": 3, "pilot": 4},
            }
            write_json(where / "manifest.json", manifest)
        answered(folder.test(made.policy, 1).directory, "test", rising(made.policy, 1, "test"))


@pytest.fixture(params=["one", "per-seed"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> RoundFolder:
    one = SPEC.round(2).model_copy(update={"stage_0": request.param})
    found = RoundFolder(tmp_path / "study-small", SPEC.model_copy(update={"rounds": (one,)}), one, one.seeds)
    finish(found)
    return found


def stage_0(folder: RoundFolder) -> list[str]:
    """What the answers of stage 0 are kept under."""
    return [SHARED] if folder.round.stage_0 == "one" else [f"{SHARED}-s{seed}" for seed in folder.round.seeds]


def store(folder: RoundFolder) -> Path:
    data = folder.study / "study"
    for name, found in small_sets().items():
        write_dataset(data / f"{name}.parquet", found, PromptStyle.COMPACT, {})
    store_round(data, folder)
    return data


def test_every_policy_is_tested_once_and_the_shared_ones_first(folder: RoundFolder):
    policies = policies_to_test(folder, folder.runs())
    first = [(SHARED, -1), *((policy, 0) for policy in stage_0(folder))]
    assert policies[: len(first)] == first
    assert set(policies[len(first) :]) == {
        (f"{arm}-s{seed}", 1) for arm in folder.spec.arms(folder.round) for seed in folder.round.seeds
    }
    assert len(policies) == len(set(policies))
    assert len({folder.test(policy, stage).directory for policy, stage in policies}) == len(policies)


def test_the_stored_answers_are_those_of_the_run_directories(folder: RoundFolder):
    data = read_round(store(folder), 2)
    assert (data.stored.registered, data.stored.code) == (folder.spec.registered(folder.round), ("1.1",))
    assert {policy for policy, stage, _ in data.outcomes if stage == 0} == set(stage_0(folder))
    tested, validated = policies(data, "test"), policies(data, "validation")
    for arm in data.stored.arms:
        for run_, valid in zip(data.runs(arm), final(tested[arm], "valid"), strict=True):
            assert valid.mean() == rising(run_.policy, 1, "test") / 10
            assert run_.tokens == {"training": 100, "evaluation": 10, "engineer": 6, "pilot": 8}
            root = shared_policy(0, folder.round.stage_0, run_.seed)
            assert tested["stage 0"][run_.seed].end("valid").mean() == rising(root, 0, "test") / 10
            heights = [
                rising(SHARED, -1, "validation"),
                rising(root, 0, "validation"),
                rising(run_.policy, 1, "validation"),
            ]
            assert validated[arm][run_.seed].outcomes["valid"].mean(axis=1) * 10 == pytest.approx(heights)
    assert find(data).comparisons == 5


def test_a_run_that_ended_on_the_shared_stage_has_the_answers_of_that(folder: RoundFolder):
    made = folder.runs()[0]
    directory = folder.path / made.policy
    last = made.results.stages[-1]
    assert last.gate is not None
    back = last.model_copy(
        update={"gate": last.gate.model_copy(update={"action": "rollback", "in_force": 0})}
    )
    write_json(
        directory / "results.json",
        made.results.model_copy(update={"stages": (*made.results.stages[:-1], back)}),
    )
    data = read_round(store(folder), 2)
    assert (made.policy, 1, "test") not in data.outcomes
    assert (
        final(policies(data, "test")["fixed"], "valid")[0].mean()
        == rising(stage_0(folder)[0], 0, "test") / 10
    )


def test_a_round_is_not_continued_under_another_registration(tmp_path: Path):
    folder = RoundFolder(tmp_path, SPEC, SPEC.round(1), SPEC.round(1).seeds)
    wanted = folder.comparison.model_copy(update={"registration": SPEC.registration(SPEC.round(1))})
    assert open_comparison(folder.path, wanted) == open_comparison(folder.path, wanted)
    with pytest.raises(RunDirectoryError, match="was begun with another registration"):
        open_comparison(folder.path, wanted.model_copy(update={"registration": {"round": {"seeds": [8, 9]}}}))


def part(folder: RoundFolder, *seeds: int) -> RoundFolder:
    return dataclasses.replace(folder, seeds=seeds)


def test_seeds_that_are_stored_one_by_one_or_on_two_machines_are_the_whole_round(
    folder: RoundFolder, tmp_path: Path
):
    whole = store(folder)
    for other, seeds in {"first": (4,), "second": (3,)}.items():
        for name, found in small_sets().items():
            write_dataset(tmp_path / other / f"{name}.parquet", found, PromptStyle.COMPACT, {})
        store_round(tmp_path / other, part(folder, *seeds))
        assert stored_seeds(tmp_path / other, 2) == seeds
    with pytest.raises(DataError, match="fewer than two curricula"):
        find(read_round(tmp_path / "first", 2))
    take_over(tmp_path / "first", folder.spec, folder.round, tmp_path / "second")
    take_over(tmp_path / "first", folder.spec, folder.round, tmp_path / "nothing")
    assert read_answers(tmp_path / "first", 2) == read_answers(whole, 2)
    store_round(whole, part(folder, 3))
    assert read_answers(tmp_path / "first", 2) == read_answers(whole, 2), "what is stored already stays"


def test_seeds_of_another_registration_or_of_other_instances_are_not_taken_over(
    folder: RoundFolder, tmp_path: Path
):
    whole = store(folder)
    other = folder.spec.model_copy(update={"test": folder.spec.test | {"seed": 6}})
    with pytest.raises(DataError, match=r"round 2 was registered as \w{12}, and study small says \w{12} now"):
        take_over(whole, other, folder.round, whole)
    for name, found in small_sets().items():
        kept = found[1:] if name == "test" else found
        write_dataset(tmp_path / "other" / f"{name}.parquet", kept, PromptStyle.COMPACT, {})
    with pytest.raises(DataError, match="has other instances than study small"):
        take_over(tmp_path / "other", folder.spec, folder.round, whole)


def test_a_round_that_is_not_finished_is_not_stored(folder: RoundFolder):
    directory = folder.path / folder.runs()[-1].policy
    (directory / "results.json").unlink()
    with pytest.raises(RunDirectoryError, match=re.escape(f"{directory.name}: not finished")):
        store(folder)


def test_answers_to_other_instances_or_in_another_order_are_not_stored(folder: RoundFolder):
    answered(folder.test(stage_0(folder)[-1], 0).directory, "test", 3, small_sets()["test"][::-1])
    with pytest.raises(
        DataError,
        match=r"-stage-00/rollouts.parquet: answers other instances than those of the study's test set",
    ):
        store(folder)
