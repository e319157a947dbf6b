"""A training that is killed after any of its checkpoints ends in the same weights, also if one is damaged."""

import math
import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from boards import draw_instances, train_spec
from transformers import TrainerControl, TrainerState

from envgen.files import file_digest, write_json
from policy.grpo import train_spec as stages
from policy.grpo.train_spec import CHECKPOINT, TRAIN_LOG, TrainingSettings, TrainSpec, last_checkpoint

pytestmark = pytest.mark.timeout(900)
STEPS = 6
OPTIONS = {"per_device_train_batch_size": 32, "beta": 0.0, "num_train_epochs": 3}


def spec(folder: Path, passes: int = 3) -> TrainSpec:
    """Passes over sixteen boards, two steps each."""
    options = {**OPTIONS, "num_train_epochs": passes}
    return train_spec(folder, draw_instances(16), TrainingSettings(save_minutes=0), **options)


def _train(spec: TrainSpec, killed_at: int | None) -> None:
    from policy.grpo.saving import StageWatch
    from policy.grpo.training import train

    on_save = StageWatch.on_save

    def kill(self: StageWatch, args: object, state, *rest: object, **more: object) -> None:
        on_save(self, args, state, *rest, **more)
        if state.global_step == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    StageWatch.on_save = kill
    train(spec)


def trained(spec: TrainSpec, killed_at: int | None = None) -> str:
    """Train in a process of its own, which is killed after this step; the digest of the weights if it is
    not."""
    import policy.grpo.training  # noqa: F401  # the processes need not import it each

    process = multiprocessing.get_context("fork").Process(target=_train, args=(spec, killed_at))
    process.start()
    process.join()
    assert process.exitcode == (0 if killed_at is None else -signal.SIGKILL)
    return file_digest(spec.output / CHECKPOINT) if killed_at is None else ""


@pytest.mark.slow
def test_a_training_that_is_killed_again_and_again_ends_in_the_same_weights(tmp_path: Path):
    cut, steps = spec(tmp_path / "cut"), [1, 4, 5, STEPS]
    for step in steps:
        trained(cut, killed_at=step)
    assert trained(cut) == trained(spec(tmp_path / "whole"))
    assert stages.resumed_steps(cut.work) == steps


def test_a_stage_carries_the_optimizer_on_with_a_new_schedule_and_a_kill_changes_nothing(tmp_path: Path):
    training = TrainingSettings(save_minutes=0, carry_optimizer=True)
    options = {**OPTIONS, "max_completion_length": 8, "warmup_steps": 2}

    def stage(name: str, parent: Path | None = None) -> TrainSpec:
        spec = train_spec(tmp_path / name, draw_instances(8), training, **options)
        return spec.model_copy(update={"parent": str(parent)} if parent else {})

    def rates(spec: TrainSpec) -> list[float]:
        history = stages.trainer_state(spec.work / "checkpoint-3")["log_history"]
        return [entry["learning_rate"] for entry in history]

    trained(first := stage("first"))
    parent = first.output / CHECKPOINT
    before = torch.load(parent / "optimizer.pt")
    trained(cut := stage("cut", parent), killed_at=1)
    whole = stage("whole", parent)
    assert trained(cut) == trained(whole)
    after = torch.load(whole.output / CHECKPOINT / "optimizer.pt")
    assert {float(state["step"]) for state in before.values()} == {3}
    assert {float(state["step"]) for state in after.values()} == {6}
    assert rates(whole) == rates(first)


def test_a_resume_before_an_earlier_one_replaces_it(tmp_path: Path):
    for step in (2, 6, 4):
        checkpoint = tmp_path / f"checkpoint-{step}"
        write_json(checkpoint / "trainer_state.json", {"global_step": step})
        stages.note_resume(tmp_path, checkpoint)
    assert stages.resumed_steps(tmp_path) == [2, 4]
    stages.note_resume(tmp_path, None)
    assert stages.resumed_steps(tmp_path) == []


def shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-2])


@pytest.mark.parametrize("damage", [shorten, Path.unlink, lambda file: file.write_bytes(b"")])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, damage: Callable[[Path], object]):
    def write(step: int) -> Path:
        folder = tmp_path / f"checkpoint-{step}"
        for name in ("model.safetensors", "trainer_state.json", "optimizer_0/__1_0.distcp"):
            write_json(folder / name, "twelve bytes")
        stages.mark_complete(folder)
        return folder

    before, newest = write(8), write(12)
    for file in [file for file in newest.rglob("*") if file.is_file()]:
        assert last_checkpoint(tmp_path) == newest
        damage(file)
        assert last_checkpoint(tmp_path) == before, file
        newest = write(12)


def test_training_that_is_no_longer_finite_stops_with_its_step_and_continues_before_it(tmp_path: Path):
    from policy.grpo.trainer import Trainer
    from policy.grpo.training import train

    stage, original = spec(tmp_path / "stage", passes=2), Trainer._compute_loss

    def broken(self: Trainer, *args: object) -> torch.Tensor:
        return original(self, *args) * (math.nan if self.state.global_step == 2 else 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_compute_loss", broken)
        with pytest.raises(FloatingPointError, match="loss is nan in step 3"):
            train(stage)
    assert not (stage.output / CHECKPOINT).exists()
    assert not (stage.output / TRAIN_LOG).exists()
    assert last_checkpoint(stage.work) == stage.work / "checkpoint-2"
    train(stage)
    assert stages.resumed_steps(stage.work) == [2]
    assert (stage.output / CHECKPOINT / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("logs", "fp16", "stops"),
    [
        ({"loss": 0.1, "grad_norm": math.inf}, False, True),
        ({"loss": 0.1, "grad_norm": math.nan}, False, True),
        ({"loss": -math.inf}, True, True),
        ({"loss": 0.1, "grad_norm": math.inf}, True, False),
        ({"loss": 0.0, "grad_norm": 0.0, "reward": math.nan}, False, False),
        ({"train_runtime": 1.0}, False, False),
    ],
)
def test_loss_and_gradient_have_to_be_finite(logs: dict, fp16: bool, stops: bool):
    """But for a gradient that overflows in float16, whose step is skipped."""
    from policy.grpo.saving import StageWatch

    arguments = SimpleNamespace(fp16=fp16), TrainerState(global_step=7), TrainerControl()
    with pytest.raises(FloatingPointError, match="in step 7") if stops else nullcontext():
        StageWatch().on_log(*arguments, logs=logs)


def test_a_checkpoint_is_saved_by_the_clock_once_all_answers_were_trained_on(monkeypatch: pytest.MonkeyPatch):
    from policy.grpo import saving

    now, saved = 0, []
    monkeypatch.setattr(saving.time, "monotonic", lambda: now)
    saver = saving.SaveByTime(2.0, lambda: now % 100 == 0)  # a step takes 50 s, and answers last for two
    for now in range(50, 450, 50):
        saver.on_step_end(None, state := TrainerState(), control := TrainerControl())
        if control.should_save:
            saved.append(now)
            now += 20  # it is written for so long
            saver.on_save(None, state, control)
    assert saved == [200, 400], "due at 120 s and at 340 s"
