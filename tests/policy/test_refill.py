"""Groups without signal are replaced by groups of further prompts, and a kill changes nothing of it."""

import os
import subprocess
from pathlib import Path

import pytest
from boards import draw_instances, train_spec
from support.prefect_servers import vllm_or_skip
from test_resuming import trained

from envgen.files import write_json
from policy.grpo.rewards import RewardWeights
from policy.grpo.train_log import overall, read_train_log
from policy.grpo.train_spec import TrainingSettings, TrainSpec

pytestmark = pytest.mark.timeout(900)
ANSWERS = 32


def spec(folder: Path, refill: float, **options: object) -> TrainSpec:
    """Two passes over 24 boards, eight groups of four a step."""
    options = {"per_device_train_batch_size": ANSWERS, "num_train_epochs": 2} | options
    return train_spec(folder, draw_instances(24), TrainingSettings(refill=refill, save_minutes=0), **options)


def test_a_step_trains_on_as_many_answers_and_on_those_with_signal_first(tmp_path, monkeypatch):
    from policy.grpo import trainer
    from policy.grpo.training import train

    learned, original = list[int](), trainer.Trainer._compute_loss

    def watched(self: trainer.Trainer, model: object, inputs: dict) -> object:
        learned.append(int((inputs["advantages"] != 0).sum()))
        return original(self, model, inputs)

    monkeypatch.setattr(trainer.Trainer, "_compute_loss", watched)
    for refill in (1.0, 1.5, 3.0):
        stage, before = spec(tmp_path / str(refill), refill, num_train_epochs=1), len(learned)
        # Of answers worth 0 or 1, all of a group with signal are off its mean.
        train(stage.model_copy(update={"rewards": RewardWeights(optimal=0)}))
        log, asked = read_train_log(stage.output / "train_log.parquet"), 0
        of_a_step = zip(log["strata"], log["zero_variance"], log["completion_tokens"], strict=True)
        for (strata, flat, tokens), learn in zip(of_a_step, learned[before:], strict=True):
            offered, trained = (sum(entry[name] for entry in strata) for name in ("answers", "kept"))
            with_signal, full = round(offered * (1 - flat)), int(refill * ANSWERS)
            assert trained == ANSWERS <= offered <= full
            assert with_signal >= ANSWERS or offered == full, "it stops early only when it is full"
            assert learn == min(with_signal, ANSWERS), "the loss is of the groups with signal"
            assert sum(entry["tokens"] for entry in strata) == tokens
            assert overall(strata, "zero_variance") == flat
            asked += offered
        assert (asked == 3 * ANSWERS) == (refill == 1)
    assert sum(learned[6:]) > sum(learned[:3])


@pytest.mark.slow
def test_a_training_with_refill_that_is_killed_ends_in_the_same_weights(tmp_path: Path):
    cut = spec(tmp_path / "cut", 2.0)
    for step in (1, 4):
        trained(cut, killed_at=step)
    assert trained(cut) == trained(spec(tmp_path / "whole", 2.0))


@pytest.mark.slow
def test_answers_of_vllm_are_refilled_too_in_two_trainings_at_once(tmp_path: Path):
    python = str(vllm_or_skip())
    vllm = {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.1}
    stage, other = (spec(tmp_path / name, 2.0, num_train_epochs=1, **vllm) for name in ("stage", "other"))
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "VLLM_CPU_KVCACHE_SPACE": "1"}
    children = list[subprocess.Popen]()
    for each in (stage, other):
        write_json(each.output / "spec.json", each)
        command = [python, "-m", "policy.grpo.training", str(each.output / "spec.json")]
        children.append(subprocess.Popen(command, env=variables))
    assert [child.wait() for child in children] == [0, 0]
    log = read_train_log(stage.output / "train_log.parquet")
    assert 0 < max(log["mismatch"]) < 0.01, "vLLM has the weights of each step, and rounds otherwise"
    for strata in log["strata"]:
        offered, trained = (sum(entry[name] for entry in strata) for name in ("answers", "kept"))
        assert trained == ANSWERS < offered <= 2 * ANSWERS
