"""One step of real training with the shipped base policy, and what its log says of each stratum."""

import json
import math
from pathlib import Path

import pytest
from boards import draw_instances, train_spec
from support.boards import boards_config, sample_boards
from support.tiny_chat_model import IGNORED, tiny_with

from policy.grpo import train_log
from policy.grpo.rewards import RewardWeights
from policy.grpo.train_log import TRAIN_LOG_SCHEMA, Answers, has_signal, read_train_log, stratum_means
from policy.grpo.train_spec import TrainingSettings


def test_answers_are_counted_by_stratum_and_signal_is_a_difference_within_a_group():
    answers = Answers(
        stratum=["4", "4", "3", "3", "6", "6", "6", "6"],
        tokens=[1, 2, 3, 4, 5, 6, 7, 8],
        reward=[1.0, 0.0, math.nan, 0.5, 0.3, 0.3 + 1e-8, math.nan, math.nan],
        valid=[1.0, 0.0, math.nan, 0.0, 1.0, 1.0, math.nan, math.nan],
        used=[True, True, False, False, True, True, False, False],
    )
    assert has_signal(answers.reward, group=2).tolist() == [True, False, False, False]
    scaled = pytest.approx(0.5**0.5, abs=1e-3)  # 0.5 by the deviation of (0, 1), which is 0.5 * sqrt(2)
    assert [[*entry.values()] for entry in train_log.stratum_metrics(answers, group=2)] == [
        ["4", 2, 2, 3, scaled, 0.5, 0],
        ["3", 2, 0, 7, 0, 0, 1],
        ["6", 4, 2, 26, pytest.approx(0, abs=1e-3), 0.5, 1],
    ]


def test_a_stage_weighs_its_steps_by_their_answers():
    def entry(*values: object) -> dict:
        return dict(zip(("stratum", "answers", "advantage", "zero_variance"), values, strict=True))

    log = {"strata": [[entry("3", 8, 0.5, 0.5)], [entry("3", 24, 1.0, 0.25), entry("5", 4, 0.0, 1.0)]]}
    assert stratum_means(log, "advantage") == {"3": 0.875, "5": 0.0}
    assert stratum_means(log, "zero_variance") == {"3": 0.3125, "5": 1.0}
    assert stratum_means({"strata": [[], []]}, "advantage") == {}


def stage(folder: Path, **fields: str) -> dict[str, list]:
    """The training log of a stage."""
    from policy.grpo.training import train

    shares = {3: 0.75, 4: 0.25}
    config = boards_config({n: (share, 0.2, 0.25) for n, share in shares.items()})
    options = {"per_device_train_batch_size": 32, "num_generations": 8, "beta": 0.0}
    spec = train_spec(folder, sample_boards(config, 16, seed=5), **options)
    # The float32 mean of eight rewards of 0.3 is not 0.3.
    train(spec.model_copy(update={"rewards": RewardWeights(format=0.3), **fields}))
    return train_log.read_train_log(folder / "train_log.parquet")


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> dict[str, list]:
    return stage(tmp_path_factory.mktemp("stage-00"))


def test_training_ignores_what_a_generation_config_says_of_sampling_and_writes_all_ends(log, tmp_path):
    parent = tiny_with(tmp_path / "parent", generation_config={"eos_token_id": [2], **IGNORED})
    learned = stage(tmp_path, parent=parent)
    assert {**learned, "seconds": log["seconds"]} == log
    written = json.loads((tmp_path / "checkpoint" / "generation_config.json").read_text())
    assert written.pop("eos_token_id") == [1, 2]
    assert set(written) <= {"pad_token_id", "transformers_version"}


@pytest.mark.parametrize("together", [1, 4])
def test_tokens_are_counted_once_however_many_passes_are_generated_together(tmp_path, monkeypatch, together):
    from policy.grpo import trainer, training

    original, generated = trainer.Trainer._generate, list[int]()

    def watched(self: trainer.Trainer, prompts: list) -> object:
        answered = original(self, prompts)
        generated.extend(map(len, answered[1]))
        return answered

    monkeypatch.setattr(trainer.Trainer, "_generate", watched)
    sizes = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}
    options = {**sizes, "steps_per_generation": together, "max_completion_length": 8}
    training.train(train_spec(tmp_path, draw_instances(8), **options))
    log = read_train_log(tmp_path / "train_log.parquet")
    assert len(generated) == 8 * 4
    assert sum(log["completion_tokens"]) == sum(generated)
    assert sum(entry["answers"] for step in log["strata"] for entry in step) == len(generated)


def test_training_logs_the_answers_and_the_mean_absolute_advantage_of_each_stratum(log):
    assert list(log) == TRAIN_LOG_SCHEMA.names
    entries = [entry for step in log["strata"] for entry in step]
    for stratum, answers in (("3", 96), ("4", 32)):
        assert sum(entry["answers"] for entry in entries if entry["stratum"] == stratum) == answers
    assert set(stratum_means(log, "advantage")) == {"3", "4"}
    for name in ("valid", "zero_variance"):
        for step, mean in zip(log["strata"], log[name], strict=True):
            assert sum(entry[name] * entry["answers"] for entry in step) == pytest.approx(32 * mean)


def test_the_logged_advantages_are_those_of_groups_with_mixed_rewards(log):
    """Within a group of eight the scaled advantages have the standard deviation 1, so that their mean is at
    most sqrt(7/8)."""
    noise = 32 * 1e-2
    assert min(log["zero_variance"]) < 1, "the base policy solves some boards, and not all"
    for index, flat in enumerate(log["zero_variance"]):
        total = sum(entry["advantage"] * entry["answers"] for entry in log["strata"][index])
        mixed = (1 - flat) * 32
        # sqrt(7/32) at least: six answers of eight alike, one as far above them as one below (sample standard
        # deviation).
        assert 0.467 * mixed - noise <= total <= math.sqrt(7 / 8) * mixed + noise


@pytest.mark.parametrize(("given", "ends"), [({"max_tokens": 160}, 2), ({"max_seconds": 5.5}, 3), ({}, None)])
def test_a_stage_ends_with_the_step_that_spends_its_tokens_or_seconds(given: dict, ends: int | None):
    from transformers import TrainerControl, TrainerState
    from trl import GRPOConfig

    from policy.grpo.saving import Budget

    arguments = GRPOConfig(per_device_train_batch_size=4, gradient_accumulation_steps=2, bf16=False)
    budget, state, stopped = Budget(TrainingSettings.model_validate(given)), TrainerState(), None
    for step in (1, 2, 3, 4):  # 8 answers of 10 tokens each, in two seconds
        state.log_history.append({"step": step, "completion_tokens": 80, "step_time": 2.0})
        budget.on_log(arguments, state, control := TrainerControl())
        stopped = stopped or (step if control.should_training_stop else None)
    assert stopped == ends
