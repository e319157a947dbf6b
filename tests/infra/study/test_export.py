"""What a round's run directories become in the study's data."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from study_rounds import SPEC, completions, rising, run, small_sets

from envgen.dataset import write_dataset
from envgen.errors import DataError, RunDirectoryError
from envgen.files import write_json
from envgen.problem import Instance
from envgen.prompts import PromptStyle
from envgen.verifier import verify
from infra.runs.run import new_curriculum
from infra.runs.steps import stage_directory
from infra.study.export import RoundFolder, policies_to_test, register, store_round
from infra.study.findings import find
from infra.study.records import SHARED, SetName, read_round, shared_policy
from policy.rollouts import Rollout, write_rollouts


def answered(directory: Path, name: SetName, right: int, found: list[Instance] | None = None) -> None:
    found = found or small_sets()[name]
    texts = completions(found, right)
    rollouts = [Rollout(instance=i, completion=t, completion_tokens=3, truncated=False, verdict=verify(i, t)) for i, t in zip(found, texts, strict=True)]
    write_rollouts(directory / "rollouts.parquet", rollouts, PromptStyle.COMPACT)


def finish(folder: RoundFolder) -> None:
    """Leave what the curricula of a round leave: stage 0, one more stage each, tests of start, stage 0 and each final policy."""
    sets = small_sets()
    for policy, stage, directory in folder.shared_policies():
        answered(directory / "start" if stage < 0 else stage_directory(directory, 0), "validation", rising(policy, stage, "validation"))
        answered(folder.test(policy, stage), "test", rising(policy, stage, "test"))
    for group, seeds in product(folder.round.groups, folder.round.batches):
        comparison = folder.spec.comparison(folder.round, group, seeds)
        for child in comparison.children:
            directory = folder.comparison(group, seeds) / child.name
            made = run(group.arm(child.engineer.label), child.seed, rising, sets["validation"], folder.round.stage_0)
            write_json(directory / "curriculum.json", new_curriculum(child.name, comparison.preset_of(child)))
            write_json(directory / "results.json", made.results.model_copy(update={"curriculum": child.name}))
            answered(directory / "start", "validation", rising(SHARED, -1, "validation"))
            for stage in made.results.stages:
                where = stage_directory(directory, stage.stage)
                policy = made.policy if stage.stage else shared_policy(0, folder.round.stage_0, child.seed)
                answered(where, "validation", rising(policy, stage.stage, "validation"))
                manifest = {"code": f"1.{stage.stage}", "tokens": {"training": 100, "evaluation": 10, "engineer_prompt": 3, "pilot": 4}}
                write_json(where / "manifest.json", manifest)
            answered(folder.test(made.policy, 1), "test", rising(made.policy, 1, "test"))


@pytest.fixture(params=["one", "per-seed"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> RoundFolder:
    one = SPEC.round(2).model_copy(update={"stage_0": request.param})
    found = RoundFolder(tmp_path / "study-small", SPEC.model_copy(update={"rounds": (one,)}), one)
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
    policies = [(policy, stage) for policy, stage, _ in policies_to_test(folder, folder.runs())]
    first = [(SHARED, -1), *((policy, 0) for policy in stage_0(folder))]
    assert policies[: len(first)] == first
    assert set(policies[len(first) :]) == {(f"{arm}-s{seed}", 1) for arm, _, _ in folder.spec.arms(folder.round) for seed in folder.round.seeds}
    assert len(policies) == len(set(policies))
    assert len({folder.test(policy, stage) for policy, stage in policies}) == len(policies)


def test_the_stored_answers_are_those_of_the_run_directories(folder: RoundFolder):
    data = read_round(store(folder), 2)
    assert (data.stored.registered, data.stored.code) == (folder.spec.registered(folder.round), ("1.1",))
    assert {policy for policy, stage, _ in data.outcomes if stage == 0} == set(stage_0(folder))
    for arm in data.stored.arms:
        for run_, valid in zip(data.runs(arm), data.final(arm, "valid"), strict=True):
            assert valid.mean() == rising(run_.policy, 1, "test") / 10
            assert run_.tokens == {"training": 100, "evaluation": 10, "engineer": 6, "pilot": 8}
        roots = [shared_policy(0, folder.round.stage_0, one.seed) for one in data.runs(arm)]
        assert data.shared(arm, 0, "valid").mean(axis=1) == pytest.approx([rising(root, 0, "test") / 10 for root in roots])
        last = [rising(one.policy, 1, "validation") for one in data.runs(arm)]
        heights = [rising(SHARED, -1, "validation") / 10, np.mean([rising(root, 0, "validation") / 10 for root in roots]), np.mean(last) / 10]
        assert [rows.mean() for rows in data.curve(arm, "valid")] == pytest.approx(heights)
    assert find(data).comparisons == 5


def test_a_run_that_ended_on_the_shared_stage_has_the_answers_of_that(folder: RoundFolder):
    made, directory = folder.runs()[0]
    last = made.results.stages[-1]
    assert last.gate is not None
    back = last.model_copy(update={"gate": last.gate.model_copy(update={"action": "rollback", "in_force": 0})})
    write_json(directory / "results.json", made.results.model_copy(update={"stages": (*made.results.stages[:-1], back)}))
    data = read_round(store(folder), 2)
    assert (made.policy, 1, "test") not in data.outcomes
    assert data.final("fixed", "valid")[0].mean() == rising(stage_0(folder)[0], 0, "test") / 10


def test_a_round_is_not_continued_as_another(tmp_path: Path):
    spec, one = SPEC, SPEC.round(1)
    register(RoundFolder(tmp_path, spec, one))
    register(RoundFolder(tmp_path, spec, one))
    with pytest.raises(RunDirectoryError, match="this round was begun with another round"):
        register(RoundFolder(tmp_path, spec, one.model_copy(update={"seeds": (8, 9)})))


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_round_whose_registration_was_lost_is_not_continued(folder: RoundFolder, content: str):
    path = folder.path / "registered.json"
    with pytest.raises(RunDirectoryError, match="is missing, though curricula of the round are there"):
        register(folder)
    path.write_text(content)
    with pytest.raises(RunDirectoryError, match="is damaged"):
        register(folder)


def test_a_round_that_is_not_finished_is_not_stored(folder: RoundFolder):
    _, directory = folder.runs()[-1]
    (directory / "results.json").unlink()
    with pytest.raises(RunDirectoryError, match=f"{directory.name}: not finished"):
        store(folder)


def test_answers_to_other_instances_or_in_another_order_are_not_stored(folder: RoundFolder):
    answered(folder.test(stage_0(folder)[-1], 0), "test", 3, small_sets()["test"][::-1])
    with pytest.raises(DataError, match=r"-stage-00/rollouts.parquet: answers other instances than those of the study's test set"):
        store(folder)
