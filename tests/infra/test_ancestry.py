"""The chain of checkpoints that a checkpoint comes from, and what is no checkpoint."""

import socket
from pathlib import Path

import mlflow
import pytest
from recorded_curricula import Store, facts, record

from envgen.errors import RunDirectoryError
from envgen.files import file_digest
from infra.lineage.ancestry import ancestry


def test_ancestry_leads_from_the_newest_checkpoint_to_the_base_policy(store: Store, tmp_path: Path):
    ids = record(store.recorder(), tmp_path, "line", 2)
    newest, middle, oldest = ancestry(store.uri, str(tmp_path / "line" / "stage-1"))
    assert [a.checkpoint for a in (newest, middle, oldest)] == ["line-1", "line-0", "line-start"]
    assert [a.parent for a in (newest, middle, oldest)] == [ids["model-0"], ids["start"], None]
    assert (newest.dataset, newest.dataset_digest, newest.instances) == ("line-train-1", "1" * 64, 16)
    assert (newest.valid, newest.optimal, oldest.valid) == (0.6, 0.25, None)
    assert (newest.path, newest.stage, oldest.stage) == (str(tmp_path / "line" / "stage-1"), 1, -1)
    assert ancestry(store.uri, str(tmp_path / "line" / "stage-0")) == [middle, oldest]
    assert ancestry(store.uri, f"models:/{ids['model-1']}") == [newest, middle, oldest]


def test_a_checkpoint_that_was_moved_is_known_by_its_digest(store: Store, tmp_path: Path):
    """Two runs share the weights of a stage, as those of a comparison do; the one with the same name is
    meant."""
    recorder, digests = store.recorder(), set()
    for name in ("moved-a", "moved-b"):
        weights = tmp_path / "old" / name / "stage-00" / "checkpoint"
        weights.mkdir(parents=True)
        (weights / "model.safetensors").write_text("weights")
        digests.add(file_digest(weights))
        run = recorder.run(name, name)
        recorder.checkpoint(run, name, name, facts(name, 0, weights, digest=file_digest(weights)), step=0)
    assert len(digests) == 1
    (tmp_path / "old").rename(tmp_path / "new")
    for name in ("moved-a", "moved-b"):
        [found] = ancestry(store.uri, str(tmp_path / "new" / name / "stage-00" / "checkpoint"))
        assert found.run == name
        [deleted] = ancestry(store.uri, str(tmp_path / "old" / name / "stage-00" / "checkpoint"))
        assert deleted == found


def test_other_weights_under_a_recorded_path_are_not_taken_for_it(store: Store, tmp_path: Path):
    weights = tmp_path / "checkpoint"
    weights.mkdir()
    (weights / "model.safetensors").write_text("first")
    recorder = store.recorder()
    recorder.checkpoint(
        recorder.run("other", "other"),
        "other",
        "other",
        facts("other", 0, weights, digest=file_digest(weights)),
        step=0,
    )
    (weights / "model.safetensors").write_text("second")
    with pytest.raises(RunDirectoryError, match="knows no such checkpoint"):
        ancestry(store.uri, str(weights))


@pytest.mark.parametrize(
    "name", ["nowhere", "it's", 'a "b"', "100%_\\", "a`b", "x' OR tags.`envwright.key` != '"]
)
def test_a_checkpoint_that_nobody_recorded_is_refused(store: Store, tmp_path: Path, name: str):
    with pytest.raises(RunDirectoryError, match="knows no such checkpoint"):
        ancestry(store.uri, str(tmp_path / name))


@pytest.mark.parametrize(
    "name",
    [
        "models:/envwright-nobody@best",
        "models:/envwright-nobody/1",
        "models:/m-0",
        "models:/",
        "models:/a@b@c",
        "models:/a/b/c",
    ],
)
def test_a_registered_model_that_nobody_registered_is_refused(store: Store, name: str):
    with pytest.raises(RunDirectoryError, match="knows no such checkpoint"):
        ancestry(store.uri, name)


def test_a_model_that_somebody_else_recorded_is_refused(store: Store):
    recorder = store.recorder()
    model = mlflow.create_external_model(name="foreign", experiment_id=recorder.experiment)
    try:
        with pytest.raises(RunDirectoryError, match="knows no such checkpoint"):
            ancestry(store.uri, f"models:/{model.model_id}")
    finally:
        recorder.client.delete_logged_model(model.model_id)


def test_a_store_that_is_not_there_is_refused_and_not_made(tmp_path: Path):
    with pytest.raises(RunDirectoryError, match="knows no such checkpoint"):
        ancestry(f"sqlite:///{tmp_path}/mlflow.db", "runs/stage-00/checkpoint")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_no_unknown_checkpoint():
    with socket.socket() as held:  # bound, and nobody listens
        held.bind(("127.0.0.1", 0))
        with pytest.raises(RunDirectoryError, match=r"MLflow cannot be read: .*; check MLFLOW_TRACKING_URI"):
            ancestry(f"http://127.0.0.1:{held.getsockname()[1]}", "runs/stage-00/checkpoint")
