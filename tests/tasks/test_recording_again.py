"""What MLflow knows of stages that are recorded or done again or shared, and which checkpoint is best."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from finished_runs import finished_run, instances
from mlflow import MlflowClient
from recorded_runs import everything, on_a_server_too, preset, record, stage_runs

from envgen.dataset import read_table, write_table
from envgen.files import file_digest, write_json
from envgen.mapf.problem import Instance
from infra.lineage.ancestry import ancestry
from infra.runs.fork import fork
from infra.runs.run import RunRef
from infra.runs.stage import Stage
from infra.runs.steps import StepRecord
from policy.grpo.train_log import TRAIN_LOG_SCHEMA

pytestmark = pytest.mark.usefixtures("tracked")


@on_a_server_too
def test_recording_a_curriculum_again_changes_nothing(tracked: MlflowClient, tmp_path: Path):
    run = finished_run(tmp_path / "runs" / "again", (3, 5, 7), preset("again"))
    record(run)
    before = everything(tracked)
    record(run)
    assert everything(tracked) == before
    for stage in (0, 1):
        tracked.delete_tag(stage_runs(tracked, "again")[stage].info.run_id, "envwright.recorded")
    record(run)
    assert everything(tracked) == before, "a record that was cut off before its last write is only completed"


@pytest.mark.slow
@on_a_server_too
def test_the_alias_best_follows_the_gates_of_a_preset(tracked: MlflowClient, tmp_path: Path):
    def best() -> str:
        return tracked.get_model_version_by_alias("envwright-alias", "best").tags["run"]

    def recorded(name: str, *correct: int, validation: list[Instance] | None = None) -> RunRef:
        made = finished_run(tmp_path / "runs" / name, correct, preset("alias"), validation)
        record(made)
        return made

    first = recorded("first", 3, 5, 7, 6)
    versions = tracked.search_model_versions("name = 'envwright-alias'")
    assert sorted((v.tags["run"], v.tags["stage"]) for v in versions) == [("first", "0"), ("first", "1")], (
        "stage 2 is no best"
    )
    assert tracked.get_model_version_by_alias("envwright-alias", "best").tags["stage"] == "1"
    recorded("worse", 3, 6)
    assert best() == "first"
    recorded("other-set", 3, 9, validation=instances(seed=8))
    assert best() == "first", "rates on another validation set say nothing"
    recorded("better", 3, 8)
    assert best() == "better"
    for run in stage_runs(tracked, "first").values():
        tracked.set_tag(run.info.run_id, "envwright.recorded", "by an older version")
    record(first)
    assert best() == "better", "an older record is only made again"


def done_again(run: RunRef, weights: str, *correct: int) -> None:
    """Replace the last stage: other weights, other answers, another training log."""
    shutil.rmtree(run.directory)
    finished_run(run.directory, correct, run.preset)
    last = run.stage(len(correct) - 2)
    write_json(last.checkpoint / "config.json", {"weights": weights})
    log = read_table(last.path(Stage.train_log), TRAIN_LOG_SCHEMA)
    rewards = pa.array([correct[-1] / 10] * len(log), TRAIN_LOG_SCHEMA.field("reward").type)
    write_table(
        last.path(Stage.train_log), log.set_column(log.schema.get_field_index("reward"), "reward", rewards)
    )
    last.write(Stage.manifest, {"weights": weights})


@pytest.mark.slow
def test_a_stage_that_was_done_again_is_told_of_as_it_is_now(
    store: str, tracked: MlflowClient, tmp_path: Path
):
    def current(run_id: str, name: str) -> dict[int, float]:
        return {
            m.step: m.value
            for m in sorted(tracked.get_metric_history(run_id, name), key=lambda m: m.timestamp)
        }

    def best() -> tuple[str, str, str]:
        version = tracked.get_model_version_by_alias("envwright-redone", "best")
        return (
            version.tags["stage"],
            version.tags["envwright.valid"],
            ancestry(store, "models:/envwright-redone@best")[0].digest,
        )

    run = finished_run(tmp_path / "runs" / "redone", (3, 5, 7), preset("redone", gate="keep-config"))
    models, moved = {}, tmp_path / "moved"
    for weights, right, gate in (
        ("first", 7, "go-on"),
        ("second", 6, "go-on"),
        ("third", 1, "keep-config"),
        ("first", 7, "go-on"),
    ):
        done_again(run, weights, 3, 5, right)
        record(run)
        before = everything(tracked)
        record(run)
        assert everything(tracked) == before
        checkpoint = run.stage(1).checkpoint
        last, first, _ = ancestry(store, str(checkpoint))
        assert (last.digest, last.valid, last.optimal, last.parent) == (
            file_digest(checkpoint),
            right / 10,
            right / 10,
            first.model_id,
        )
        assert models.setdefault(weights, last.model_id) == last.model_id
        runs = stage_runs(tracked, "redone")
        assert (runs[1].data.metrics["valid"], runs[1].data.tags["gate"], last.gate) == (
            right / 10,
            gate,
            gate,
        )
        assert current(runs[None].info.run_id, "valid") == {0: 0.3, 1: 0.5, 2: right / 10}
        assert set(current(runs[1].info.run_id, "train/reward").values()) == {right / 10}
        stage, of = (0, first) if gate == "keep-config" else (1, last)
        assert best() == (str(stage), str(of.valid), of.digest)
        shutil.copytree(checkpoint, moved / weights, dirs_exist_ok=True)
    assert len(set(models.values())) == 3, "other weights are another model"
    assert ancestry(store, str(moved / "second"))[0].valid == 0.6, (
        "what a stage had before is still known by its bytes"
    )


@pytest.mark.slow
def test_an_evaluation_that_was_done_again_replaces_the_rates_of_the_same_weights(
    store: str, tracked: MlflowClient, tmp_path: Path
):
    run = finished_run(tmp_path / "runs" / "rescored", (3, 5, 7), preset("rescored"))
    for number, right in enumerate(((3, 5, 7), (2, 4, 6), (3, 5, 7))):
        done_again(run, "same", *right)
        run.stage(0).write(Stage.manifest, {"evaluation": number})
        run.stage(1).write(Stage.manifest, {"evaluation": number})
        record(run)
        chain = ancestry(store, str(run.stage(1).checkpoint))
        assert [one.valid for one in chain] == [n / 10 for n in reversed(right)]
        version = tracked.get_model_version_by_alias("envwright-rescored", "best")
        assert (version.tags["stage"], float(version.tags["envwright.valid"])) == ("1", right[-1] / 10)
    assert len(tracked.search_model_versions("name = 'envwright-rescored'")) == 2


def test_a_base_policy_that_stays_best_is_not_registered(tracked: MlflowClient, tmp_path: Path):
    record(finished_run(tmp_path / "runs" / "useless", (5, 3), preset("useless")))
    assert not tracked.search_registered_models("name = 'envwright-useless'")


@pytest.mark.slow
def test_curricula_with_a_common_stage_have_chains_of_their_own(store: str, tmp_path: Path):
    shared = finished_run(tmp_path / "runs" / "comparison" / "shared", (3, 5), preset("common"))
    for step, directory, outputs in (
        ("validation", shared.directory, ("validation.parquet",)),
        ("start", shared.start.directory, ("rollouts.parquet", "breakdown.json")),
        ("train", shared.stage(0).directory, ("checkpoint", "train_log.parquet")),
    ):
        found = StepRecord(
            step=step, key="", outputs={name: file_digest(directory / name) for name in outputs}, seconds=0
        )
        write_json(directory / ".steps" / f"{step}.json", found)
    for variant in ("V1", "V6"):
        directory = shared.directory.with_name(f"checkpoint-{variant}-s0")
        wanted = preset("common", variant=variant).model_copy(update={"stages": 2})
        fork(shared.directory, directory, wanted)
        weights = (directory / "stage-00" / "checkpoint" / "config.json").stat()
        assert weights.st_nlink > 1
        shutil.move(directory, tmp_path / "forked")
        run = finished_run(directory, (3, 5, 6), wanted)
        shutil.rmtree(run.stage(0).checkpoint)
        shutil.move(tmp_path / "forked" / "stage-00" / "checkpoint", run.stage(0).checkpoint)
        shutil.rmtree(tmp_path / "forked")
        record(run)
    for variant in ("V1", "V6"):
        directory = shared.directory.with_name(f"checkpoint-{variant}-s0")
        chain = ancestry(store, str(directory / "stage-01" / "checkpoint"))
        assert [(one.run, one.stage) for one in chain] == [
            (directory.name, 1),
            (directory.name, 0),
            (directory.name, -1),
        ]
        assert ancestry(store, str(directory / "stage-00" / "checkpoint")) == chain[1:]
    stages = {
        ancestry(
            store, str(shared.directory.with_name(f"checkpoint-{variant}-s0") / "stage-00" / "checkpoint")
        )[0].digest
        for variant in ("V1", "V6")
    }
    assert len(stages) == 1, "the same weights"
