"""Groups without signal are replaced by groups of further prompts, and a kill changes nothing of it."""

from pathlib import Path

import pytest
from boards import draw_instances, train_spec
from test_resuming import trained

from policy.grpo.rewards import RewardWeights
from policy.grpo.train_log import overall, read_train_log
from policy.grpo.train_spec import TrainingSettings, TrainSpec

pytestmark = pytest.mark.timeout(900)
ANSWERS = 32


def spec(folder: Path, refill: float, **options: object) -> TrainSpec:
    """Two passes over 24 boards, eight groups of four a step."""
    folder.mkdir()
    options = {"per_device_train_batch_size": ANSWERS, "num_train_epochs": 2} | options
    return train_spec(folder, draw_instances(24), TrainingSettings(refill=refill, save_minutes=0), **options)


@pytest.mark.parametrize("refill", [1.0, 1.5, 3.0])
def test_a_step_trains_on_as_many_answers_and_on_those_with_signal_first(tmp_path: Path, refill: float):
    from policy.grpo.training import train

    train(stage := spec(tmp_path / "stage", refill))
    log = read_train_log(stage.output / "train_log.parquet")
    assert len(log["step"]) == 6
    for strata, flat, tokens in zip(
        log["strata"], log["zero_variance"], log["completion_tokens"], strict=True
    ):
        offered, trained = (sum(entry[name] for entry in strata) for name in ("answers", "kept"))
        with_signal = round(offered * (1 - flat))
        assert trained == ANSWERS <= offered <= refill * ANSWERS
        assert with_signal >= ANSWERS or offered == int(refill * ANSWERS), (
            "it stops early only when it is full"
        )
        assert sum(entry["tokens"] for entry in strata) == tokens
        assert overall(strata, "zero_variance") == flat
    offered = sum(entry["answers"] for strata in log["strata"] for entry in strata)
    assert (offered == 6 * ANSWERS) == (refill == 1)


def test_the_loss_is_of_the_groups_with_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from policy.grpo import trainer
    from policy.grpo.training import train

    learn: list[int] = []
    original = trainer.Trainer._compute_loss

    def watched(self: trainer.Trainer, model: object, inputs: dict) -> object:
        learn.append(int((inputs["advantages"] != 0).sum()))
        return original(self, model, inputs)

    monkeypatch.setattr(trainer.Trainer, "_compute_loss", watched)
    for refill in (1.0, 3.0):
        stage, before = spec(tmp_path / str(refill), refill), len(learn)
        # Of answers worth 0 or 1, all of a group with signal are off its mean.
        train(stage.model_copy(update={"rewards": RewardWeights(optimal=0)}))
        log = read_train_log(stage.output / "train_log.parquet")
        offered = [sum(entry["answers"] for entry in strata) for strata in log["strata"]]
        signal = [round(n * (1 - flat)) for n, flat in zip(offered, log["zero_variance"], strict=True)]
        assert learn[before:] == [min(count, ANSWERS) for count in signal]
    assert sum(learn[6:]) > sum(learn[:6])


@pytest.mark.slow
def test_a_training_with_refill_that_is_killed_ends_in_the_same_weights(tmp_path: Path):
    cut = spec(tmp_path / "cut", 2.0)
    for step in (1, 4):
        trained(cut, killed_at=step)
    assert trained(cut) == trained(spec(tmp_path / "whole", 2.0))
