"""The simulated learner: it learns what earns more than the rest of its group, and nothing else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards import train_spec

from envgen.config import EnvConfig
from envgen.dataset import write_dataset
from envgen.environment import Source
from envgen.errors import ConfigError, ModelError
from envgen.files import file_digest, write_json
from envgen.registry import EnvironmentSpec
from envgen.sampling import sample
from infra.config.preset import load_preset
from policy.chat.contract import Sampling, ask
from policy.checkpoints import SIMULATED_STATE
from policy.evaluation import evaluate
from policy.grpo.rewards import RewardWeights
from policy.grpo.train_log import read_train_log, stratum_means
from policy.grpo.train_spec import TrainingSettings
from policy.learner import Learner
from policy.rollouts import Rollout
from policy.simulated import SimulatedModel, SimulatedPolicy, new_policy, read_policy, train

SUMS = EnvironmentSpec(name="sums")
TASK = SUMS.load()
SPACE = TASK.space
STILL = Learner(noise=0, forgetting=0)
KNOBS = {"carry_ratio": 0.5, "digits": 2.0}
ONLY_FIRST = EnvConfig.model_validate({SPACE.key: {SPACE.names[0]: {"data_ratio": 1.0, **KNOBS}}})


def even(right: float, learner: Learner = STILL) -> SimulatedPolicy:
    """A policy with the same skill in all strata, whatever their labels."""
    return SimulatedPolicy(learner=learner, skills=dict.fromkeys(SPACE.names, (right, 0.0, 3.0)))


def questions(count: int, seed: int = 0) -> list:
    """Instances of the first stratum."""
    return sample(TASK, ONLY_FIRST, count, Source(seed))[0]


def answered(policy: SimulatedPolicy, instances: list) -> list[Rollout]:
    model = SimulatedModel(policy, TASK, instances, "plain")
    return evaluate(model, TASK, instances, "plain", Sampling(max_tokens=9))


def steps_of(folder: Path, before: SimulatedPolicy, trl: dict | None = None, **fields: Any) -> list[dict]:
    """What a stage on the first stratum tells after each of its steps."""
    write_json(folder / "parent" / SIMULATED_STATE, before)
    write_dataset(folder / "train.parquet", questions(64), "plain", {}, SUMS)
    options = {"per_device_train_batch_size": 32, "num_generations": 8, "learning_rate": 1e-4, **(trl or {})}
    fields |= {"parent": str(folder / "parent"), "environment": SUMS, "style": "plain", "trl": options}
    progress: list[dict] = []
    train(train_spec(folder, []).model_copy(update={"seed": 1, **fields}), progress.append)
    return progress


def trained(folder: Path, before: SimulatedPolicy, seed: int = 1, **rewards: float) -> SimulatedPolicy:
    """The policy after a stage on the first stratum."""
    progress = steps_of(folder, before, seed=seed, rewards=RewardWeights.model_validate(rewards))
    assert [entry["step"] for entry in progress] == list(range(1, 17))
    assert progress[-1]["steps"] == 16
    return read_policy(str(folder / "checkpoint"), SPACE)


def test_a_stage_ends_with_its_steps_or_with_the_step_that_spends_its_tokens(tmp_path: Path):
    policy = even(0)
    for most in (5, 40):
        assert len(steps_of(tmp_path, policy, {"max_steps": most})) == most, "more steps than an epoch has"
    whole = [entry["tokens_here"] for entry in steps_of(tmp_path, policy)]
    spent = steps_of(tmp_path, policy, training=TrainingSettings(max_tokens=whole[6] - 1))
    assert [entry["tokens_here"] for entry in spent] == whole[:7]


def test_it_learns_what_is_rewarded_and_neighbours_learn_less(tmp_path: Path):
    first, second, *others = SPACE.names
    skills = trained(tmp_path, even(0), valid=1).skills
    assert skills[first][0] > 1
    assert 0 < skills[second][0] < skills[first][0] / 2
    assert all(skills[name][0] < skills[second][0] for name in others)
    log = read_train_log(tmp_path / "train_log.parquet")
    assert np.mean(log["valid"][-4:]) > np.mean(log["valid"][:4])
    assert stratum_means(log, "valid").keys() == {first}


def test_without_differences_of_reward_nothing_is_learned(tmp_path: Path):
    before = even(0)
    assert trained(tmp_path / "none", before, valid=0, optimal=0) == before
    assert set(read_train_log(tmp_path / "none" / "train_log.parquet")["zero_variance"]) == {1.0}


def test_a_stratum_without_data_is_forgotten(tmp_path: Path):
    skilled = even(2, Learner(noise=0, forgetting=0.1, transfer=0))
    after, rest = trained(tmp_path, skilled, valid=1), new_policy(SPACE).array[-1]
    assert after.array[-1] == pytest.approx(rest + (skilled.array[-1] - rest) * 0.9**16)


def test_the_same_seed_gives_the_same_checkpoint_and_answers(tmp_path: Path):
    seeds = {"a": 1, "b": 1, "c": 2}
    policies = [trained(tmp_path / name, new_policy(SPACE), seed) for name, seed in seeds.items()]
    digests = [file_digest(tmp_path / name / "checkpoint") for name in "abc"]
    assert digests[0] == digests[1] != digests[2]
    answers = [answered(policy, questions(20, seed=5)) for policy in policies[:2]]
    assert answers[0] == answers[1]
    assert {rollout.verdict.valid for rollout in answers[0]} == {True, False}


def test_what_it_cannot_do_is_said(tmp_path: Path):
    model = SimulatedModel(new_policy(SPACE), TASK, questions(4), "plain")
    with pytest.raises(ModelError, match="answers instances and nothing else"):
        model.complete([ask("Design the next config.")], Sampling(max_tokens=8))
    boards = EnvironmentSpec().load().space
    write_json(tmp_path / SIMULATED_STATE, new_policy(boards))
    with pytest.raises(ModelError, match="is of an environment with other strata"):
        read_policy(str(tmp_path), SPACE)
    (tmp_path / SIMULATED_STATE).write_text("{")
    with pytest.raises(ModelError, match=SIMULATED_STATE):
        read_policy(str(tmp_path), SPACE)
    with pytest.raises(ConfigError, match=r"engineer.name: 'checkpoint' asks the policy.*choose a rule"):
        load_preset("simulated", {"engineer.name": "checkpoint"})


def test_a_wrong_answer_is_never_right_where_instances_share_their_references():
    instances = questions(400)
    assert len({TASK.reference(instance) for instance in instances}) < len(instances)
    assert not any(rollout.verdict.valid for rollout in answered(even(-50), instances))
