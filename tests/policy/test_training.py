"""One step of real training with the shipped start policy, and what its log says of each map size."""

import math
from pathlib import Path

import pytest

from envgen.config import EnvConfig, SizeConfig
from envgen.dataset import write_dataset
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.sampler import sample
from policy.checkpoints import resolve_model
from policy.grpo.rewards import RewardWeights
from policy.grpo.train_log import mean_advantages, read_train_log, zero_variance_shares
from policy.grpo.train_spec import TRAIN_LOG_COLUMNS, TrainSpec

EMPTY = {f"{column}_{size}": [None, None] for size in range(3, 11) for column in ("advantage", "zero_variance")}
EMPTY |= {f"answers_{size}": [0, 0] for size in range(3, 11)}
OPTIONS = {
    "per_device_train_batch_size": 32,
    "num_generations": 4,
    "max_completion_length": 32,
    "beta": 0.0,
    "bf16": False,
    "gradient_checkpointing": False,
    "num_train_epochs": 1,
}


def test_absolute_advantages_are_summed_by_map_size():
    import torch

    from policy.grpo.training import advantage_sums

    sums = advantage_sums(torch.tensor([4, 4, 3, 3, 10, 10]), torch.tensor([1.5, -0.5, -0.25, 0.0, 0.0, 1e-4]), 2)
    nothing = [0, 0, 0]
    assert sums[:2].tolist() == [[0.25, 2, 0], [2, 2, 0]]
    assert sums[2:7].tolist() == [nothing] * 5
    assert sums[7].tolist() == pytest.approx([1e-4, 2, 2])


def test_a_stage_weighs_its_steps_by_their_answers():
    log = EMPTY | {"advantage_3": [0.5, 1.0], "answers_3": [8, 24], "advantage_5": [None, 0.0], "answers_5": [0, 4]}
    assert mean_advantages(log) == {3: 0.875, 5: 0.0}
    assert mean_advantages(EMPTY) == {}
    assert zero_variance_shares(EMPTY | {"zero_variance_3": [0.5, 0.25], "answers_3": [8, 24]}) == {3: 0.3125}


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> dict[str, list]:
    from policy.grpo.training import train

    folder: Path = tmp_path_factory.mktemp("training")
    config = EnvConfig(sizes={size: SizeConfig(data_ratio=share, hole_ratio=0.2, wait_ratio=0.25) for size, share in ((3, 0.75), (4, 0.25))})
    write_dataset(folder / "train.parquet", sample(config, 16, agents=2, seed=5)[0], PromptStyle.COMPACT, {})
    train(
        TrainSpec(
            parent=resolve_model("tiny"),
            data=folder / "train.parquet",
            output=folder,
            work=folder / "work",
            rewards=RewardWeights(),
            trl=OPTIONS,
            seed=3,
        )
    )
    return read_train_log(folder / "train_log.parquet")


def test_training_logs_the_answers_and_the_mean_absolute_advantage_of_each_map_size(log):
    assert list(log) == list(TRAIN_LOG_COLUMNS)
    assert sum(log["answers_3"]) == 48
    assert sum(log["answers_4"]) == 16
    assert sum(sum(log[f"answers_{size}"]) for size in range(5, 11)) == 0
    assert set(mean_advantages(log)) == {3, 4}
    for step, flat in enumerate(log["zero_variance"]):
        assert sum((log[f"zero_variance_{size}"][step] or 0) * log[f"answers_{size}"][step] for size in (3, 4)) == pytest.approx(32 * flat)


def test_the_logged_advantages_are_those_of_groups_with_mixed_rewards(log):
    """Within a group of four the scaled advantages have the standard deviation 1, so that their mean is at most sqrt(3)/2."""
    for index, flat in enumerate(log["zero_variance"]):
        total = sum((log[f"advantage_{size}"][index] or 0) * log[f"answers_{size}"][index] for size in (3, 4))
        mixed = (1 - flat) * 32
        assert mixed > 0, "the start policy solves some boards, and not all"
        # sqrt(3/8) at least: two answers of four alike, one as far above them as one below (sample standard deviation).
        assert 0.61 * mixed <= total <= math.sqrt(3) / 2 * mixed
