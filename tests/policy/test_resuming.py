"""A training that is killed after any of its checkpoints ends in the same weights, or says that it does
not."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest
from boards import draw_instances, train_spec

from envgen.files import file_digest, write_json
from policy.grpo.resuming import Resume, keep_resume, resume_of, resumes
from policy.grpo.train_spec import CHECKPOINT, TrainSpec

pytestmark = pytest.mark.timeout(900)
slow = pytest.mark.slow
STEPS = 6
OPTIONS = {"per_device_train_batch_size": 32, "beta": 0.0, "num_train_epochs": 3, "save_steps": 1}


def spec(folder: Path, **options: object) -> TrainSpec:
    """Three passes over sixteen boards, two steps each."""
    folder.mkdir(exist_ok=True)
    return train_spec(folder, draw_instances(16), **(OPTIONS | options))


def _train(spec: TrainSpec, killed_at: int | None) -> None:
    from policy.grpo.progress import ProgressLines
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


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    return trained(spec(tmp_path_factory.mktemp("whole")))


@slow
def test_two_uninterrupted_trainings_have_the_same_weights(whole: str, tmp_path: Path):
    assert trained(spec(tmp_path)) == whole


@slow
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_training_that_is_killed_after_a_step_ends_in_the_same_weights(
    whole: str, tmp_path: Path, step: int
):
    cut = spec(tmp_path)
    trained(cut, killed_at=step)
    assert trained(cut) == whole
    assert resumes(cut.work) == (Resume(step=step, exact=True),)


@slow
@pytest.mark.parametrize(("step", "exact"), [(1, False), (2, True)])
def test_answers_that_are_trained_on_twice_are_lost_between_the_two_steps_and_the_stage_says_so(
    tmp_path: Path, step: int, exact: bool
):
    twice = {"num_iterations": 2, "num_train_epochs": 1}
    uninterrupted = trained(spec(tmp_path / "whole", **twice))
    cut = spec(tmp_path / "cut", **twice)
    trained(cut, killed_at=step)
    assert (trained(cut) == uninterrupted) is exact
    [resume] = resumes(cut.work)
    assert (resume.step, resume.exact) == (step, exact)
    assert ("answers" in resume.why) is not exact


def checkpoint(folder: Path, **state: object) -> Path:
    """What tells of a trainer's checkpoint whether it is resumed exactly: two steps of eight are done."""
    folder.mkdir(parents=True)
    begun = {"global_step": 2, "max_steps": 8, "epoch": 1.0, "train_batch_size": 32}
    write_json(folder / "trainer_state.json", begun | state)
    (folder / "rng_state.pth").touch()
    return folder


@pytest.mark.parametrize(
    ("options", "state", "where", "why"),
    [
        ({}, {}, {}, ""),
        ({}, {}, {"device": "cuda"}, "GPU"),
        ({}, {}, {"processes": 2}, "several processes"),
        ({"use_vllm": True}, {}, {}, "vLLM"),
        ({"sync_ref_model": True, "beta": 0.1}, {}, {}, "reference model"),
        ({}, {"train_batch_size": 16}, {}, "per_device_train_batch_size was 16"),
        ({"use_vllm": True}, {"global_step": 8}, {"device": "cuda"}, ""),
    ],
)
def test_what_a_checkpoint_does_not_restore_is_named(
    tmp_path: Path, options: dict, state: dict, where: dict, why: str
):
    made = {"device": "cpu", "processes": 1, "instances": 16} | where
    found = resume_of(spec(tmp_path / "stage", **options), checkpoint(tmp_path / "2", **state), **made)
    assert found.exact is (not why)
    assert why in found.why


def test_a_checkpoint_of_several_processes_is_not_resumed_exactly_by_one(tmp_path: Path):
    folder = checkpoint(tmp_path / "2")
    (folder / "rng_state.pth").unlink()
    found = resume_of(spec(tmp_path / "stage"), folder, device="cpu", processes=1, instances=16)
    assert "several processes" in found.why


def test_what_was_done_after_the_checkpoint_that_is_resumed_counts_no_more(tmp_path: Path):
    for step, exact in ((2, True), (6, False), (4, True)):
        keep_resume(tmp_path, Resume(step=step, exact=exact))
    assert [one.step for one in resumes(tmp_path)] == [2, 4]
    keep_resume(tmp_path, None)
    assert resumes(tmp_path) == ()


@slow
def test_a_training_that_is_killed_again_and_again_ends_in_the_same_weights(whole: str, tmp_path: Path):
    cut = spec(tmp_path)
    for step in (1, 4, 5):
        trained(cut, killed_at=step)
    assert trained(cut) == whole
    assert [one.step for one in resumes(cut.work)] == [1, 4, 5]
