"""What a round's run directories become in the study's data."""

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
from infra.comparison.spec import SHARED as SHARED_DIRECTORY
from infra.run_directory import new_curriculum
from infra.steps import stage_directory
from infra.study.export import RoundFolder, store_round
from infra.study.records import SHARED, SetName, read_round
from policy.rollouts import Rollout, write_rollouts

SHORT = SPEC.model_copy(update={"rounds": (SPEC.round(2),)})


def answered(directory: Path, name: SetName, right: int, found: list[Instance] | None = None) -> None:
    found = found or small_sets()[name]
    texts = completions(found, right)
    rollouts = [Rollout(instance=i, completion=t, completion_tokens=3, truncated=False, verdict=verify(i, t)) for i, t in zip(found, texts, strict=True)]
    write_rollouts(directory / "rollouts.parquet", rollouts, PromptStyle.COMPACT)


def finish(folder: RoundFolder) -> None:
    """Leave what the curricula of a round leave: shared stage 0, one more stage each, tests of start, stage 0 and each final policy."""
    for group in folder.round.groups:
        shared = folder.comparison(group) / SHARED_DIRECTORY
        answered(shared / "start", "validation", rising(SHARED, -1, "validation"))
        answered(stage_directory(shared, 0), "validation", rising(SHARED, 0, "validation"))
    for group, comparison, child in folder.children():
        directory, made = folder.comparison(group) / child.name, run(group.arm(child.engineer.label), child.seed, rising, small_sets()["validation"])
        write_json(directory / "curriculum.json", new_curriculum(child.name, comparison.preset_of(child)))
        write_json(directory / "results.json", made.results.model_copy(update={"curriculum": child.name}))
        answered(directory / "start", "validation", rising(SHARED, -1, "validation"))
        for stage in made.results.stages:
            where = stage_directory(directory, stage.stage)
            answered(where, "validation", rising(made.policy if stage.stage else SHARED, stage.stage, "validation"))
            write_json(where / "manifest.json", {"tokens": {"training": 100, "evaluation": 10, "engineer_prompt": 3, "pilot": 4}})
        answered(folder.test(made.policy, 1), "test", rising(made.policy, 1, "test"))
    for stage in (-1, 0):
        answered(folder.test(SHARED, stage), "test", rising(SHARED, stage, "test"))


@pytest.fixture
def folder(tmp_path: Path) -> RoundFolder:
    found = RoundFolder(tmp_path / "study-small", SHORT, SHORT.round(2))
    finish(found)
    return found


def store(folder: RoundFolder) -> Path:
    data = folder.study / "study"
    for name, found in small_sets().items():
        write_dataset(data / f"{name}.parquet", found, PromptStyle.COMPACT, {})
    store_round(data, folder)
    return data


def test_every_policy_is_tested_once_and_the_shared_ones_first(folder: RoundFolder):
    policies = [(policy, stage) for policy, stage, _ in folder.policies()]
    assert policies[:2] == [(SHARED, -1), (SHARED, 0)]
    assert set(policies[2:]) == {(f"{arm}-s{seed}", 1) for arm, _, _ in SHORT.arms(folder.round) for seed in folder.round.seeds}
    assert len(policies) == len(set(policies))
    assert len({folder.test(policy, stage) for policy, stage in policies}) == len(policies)


def test_the_stored_answers_are_those_of_the_run_directories(folder: RoundFolder):
    data = read_round(store(folder), 2)
    assert data.stored.registered == SHORT.registered(folder.round)
    for arm in data.stored.arms:
        for run_, valid in zip(data.runs(arm), data.final(arm, "valid"), strict=True):
            assert valid.mean() == rising(run_.policy, 1, "test") / 10
            assert run_.tokens == {"training": 100, "evaluation": 10, "engineer": 6, "pilot": 8}
            assert [rows.mean().round(6) for rows in data.curve(arm, "valid")] == [
                np.round(np.mean([rising(one.policy if stage > 0 else SHARED, stage, "validation") / 10 for one in data.runs(arm)]), 6) for stage in (-1, 0, 1)
            ]


def test_a_run_that_ended_on_the_shared_stage_has_the_answers_of_that(folder: RoundFolder):
    _, _, child = next(folder.children())
    path = folder.comparison(folder.round.groups[0]) / child.name / "results.json"
    made = run("fixed", child.seed, rising, small_sets()["validation"]).results
    last = made.stages[-1]
    assert last.gate is not None
    back = last.model_copy(update={"gate": last.gate.model_copy(update={"action": "rollback", "in_force": 0})})
    write_json(path, made.model_copy(update={"curriculum": child.name, "stages": (*made.stages[:-1], back)}))
    data = read_round(store(folder), 2)
    assert (f"fixed-s{child.seed}", 1, "test") not in data.outcomes
    assert data.final("fixed", "valid")[0].mean() == rising(SHARED, 0, "test") / 10


def test_a_round_that_is_not_finished_is_not_stored(folder: RoundFolder):
    group, _, child = list(folder.children())[-1]
    (folder.comparison(group) / child.name / "results.json").unlink()
    with pytest.raises(RunDirectoryError, match=f"{child.name}: not finished"):
        store(folder)


def test_answers_to_other_instances_or_in_another_order_are_not_stored(folder: RoundFolder):
    answered(folder.test(SHARED, 0), "test", 3, small_sets()["test"][::-1])
    with pytest.raises(DataError, match=r"shared-stage-00/rollouts.parquet: answers other instances than those of the study's test set"):
        store(folder)
