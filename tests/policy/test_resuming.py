"""A training that is killed after any of its checkpoints ends in the same weights."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest
from boards import draw_instances, train_spec

from envgen.files import file_digest, write_json
from policy.grpo.train_spec import CHECKPOINT, TrainSpec, note_resume, resumed_steps

pytestmark = pytest.mark.timeout(900)
STEPS = 6
OPTIONS = {"per_device_train_batch_size": 32, "beta": 0.0, "num_train_epochs": 3, "save_steps": 1}


def spec(folder: Path) -> TrainSpec:
    """Three passes over sixteen boards, two steps each."""
    folder.mkdir()
    return train_spec(folder, draw_instances(16), **OPTIONS)


def _train(spec: TrainSpec, killed_at: int | None) -> None:
    from policy.grpo.saving import ProgressLines
    from policy.grpo.training import train

    def kill(self: ProgressLines, args: object, state, *rest: object, **more: object) -> None:
        if state.global_step == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    ProgressLines.on_save = kill  # called by the trainer once a checkpoint is complete
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
    assert resumed_steps(cut.work) == steps


def test_a_resume_before_an_earlier_one_replaces_it(tmp_path: Path):
    for step in (2, 6, 4):
        checkpoint = tmp_path / f"checkpoint-{step}"
        checkpoint.mkdir()
        write_json(checkpoint / "trainer_state.json", {"global_step": step})
        note_resume(tmp_path, checkpoint)
    assert resumed_steps(tmp_path) == [2, 4]
    note_resume(tmp_path, None)
    assert resumed_steps(tmp_path) == []
