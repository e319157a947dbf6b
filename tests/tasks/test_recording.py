"""What MLflow knows of a curriculum once its stages are recorded: in a database, and on a server."""

import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from finished_runs import MICRO, asked, finished_run, instances, shares
from mlflow import MlflowClient
from mlflow.entities import Trace, ViewType
from mlflow.exceptions import MlflowException

from envgen.dataset import read_table, write_table
from envgen.files import file_digest, write_json
from envgen.mapf.problem import Instance
from infra.config.preset import Preset
from infra.lineage.ancestry import ancestry
from infra.runs.decision import Decision
from infra.runs.fork import fork
from infra.runs.run import RunRef
from infra.runs.stage import Stage
from infra.runs.steps import StepRecord
from policy.checkpoints import TINY_DIRECTORY
from policy.grpo.train_log import TRAIN_LOG_SCHEMA
from tasks import lineage as tasks_lineage
from tasks.lineage import record_lineage, unrecorded


def decide(run: RunRef) -> Decision:
    """A person's decision on the proposal of stage 0."""
    decision = Decision(
        stage=0,
        decision="approve",
        edited=True,
        config=shares(0.6),
        comment="more [bold]small[/bold] boards, 'please'",
        by="Ada",
        via="form",
        proposal=file_digest(run.stage(0).path(Stage.proposal)),
        decided_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )
    run.stage(0).write(Stage.decided, decision)
    return decision


on_a_server_too = pytest.mark.parametrize(
    "store", ["database", pytest.param("server", marks=pytest.mark.slow)], indirect=True
)
"""For what reaches every part of MLflow's interface: runs, data sets, traces, prompts, registered models."""


@pytest.fixture(scope="session")
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("store")
    if getattr(request, "param", "database") == "database":
        yield f"sqlite:///{folder}/mlflow.db"
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = ["--host", "127.0.0.1", "--port", str(free.getsockname()[1])]
    stores = [
        "--backend-store-uri",
        f"sqlite:///{folder}/mlflow.db",
        "--artifacts-destination",
        str(folder / "artifacts"),
    ]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with open(folder / "server.log", "w") as log:
        command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", *address, *stores]
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    uri = f"http://127.0.0.1:{address[-1]}"
    try:
        _await(uri, server, folder / "server.log")
        yield uri
    finally:
        os.killpg(server.pid, 15)
        server.wait()


def _await(uri: str, server: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + 240
    while server.poll() is None and time.monotonic() < deadline:
        try:
            if urllib.request.urlopen(f"{uri}/health", timeout=5).status == 200:
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(log.read_text())


@pytest.fixture(autouse=True)
def tracked(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    return MlflowClient(store)


def preset(name: str, /, **design: object) -> Preset:
    return MICRO.model_copy(update={"name": name, "engineer": MICRO.engineer.model_copy(update=design)})


def record(run: RunRef, *stages: int) -> None:
    for stage in stages or range(run.preset.stages):
        record_lineage.fn(run, stage)
    assert not unrecorded(run.directory)


def experiments(client: MlflowClient) -> list[str]:
    return [one.experiment_id for one in client.search_experiments(filter_string="name LIKE 'envwright/%'")]


def stage_runs(client: MlflowClient, name: str) -> dict:
    """The runs of a curriculum by stage; its own is at None."""
    found = [
        run
        for run in client.search_runs(experiments(client), max_results=1000)
        if run.data.params.get("curriculum") == name
    ]
    [root] = {run.data.tags["mlflow.parentRunId"] for run in found}
    return {
        None: client.get_run(root),
        **{int(run.data.params["stage"]): client.get_run(run.info.run_id) for run in found},
    }


def traces(client: MlflowClient, run_id: str) -> list[Trace]:
    found = client.search_traces(locations=experiments(client), run_id=run_id)
    return sorted(found, key=lambda trace: trace.info.tags["candidate"])


def everything(client: MlflowClient) -> list[str]:
    """All that MLflow holds, as text that can be compared."""
    where = experiments(client)
    runs = client.search_runs(where, run_view_type=ViewType.ALL, max_results=1000)
    held = [
        f"{json.dumps(run.data.to_dictionary(), sort_keys=True)} {run.inputs} {run.outputs} {run.info.status}"
        for run in runs
    ]
    held += [
        str([(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)])
        for run in runs
        for name in run.data.metrics
    ]
    held += [
        f"{m.name} {sorted(m.tags.items())} {sorted((x.key, x.value) for x in m.metrics or [])}"
        for m in client.search_logged_models(where, max_results=100)
    ]
    held += [
        f"{trace.info.to_dict()} {[span.to_dict() for span in trace.data.spans]}"
        for trace in client.search_traces(locations=where, max_results=500)
    ]
    held += [
        f"{model.name} {model.aliases} {model.latest_versions}" for model in client.search_registered_models()
    ]
    return sorted(held)


@on_a_server_too
def test_the_chain_holds_all_that_made_a_checkpoint_though_the_run_is_gone(store: str, tmp_path: Path):
    run = finished_run(tmp_path / "runs" / "chain", (3, 5, 7), preset("chain"))
    decision = decide(run)
    record(run)
    digests = {
        name: file_digest(run.directory / name)
        for name in ("stage-01/train.parquet", "stage-01/config.json", "stage-00/proposal.json")
    }
    checkpoint = run.stage(1).checkpoint
    weights = file_digest(checkpoint)
    shutil.rmtree(run.directory)
    last, first, start = ancestry(store, str(checkpoint))
    assert (last.stage, first.stage, start.stage) == (1, 0, -1)
    assert (last.path, last.digest) == (str(checkpoint), weights)
    assert (last.valid, first.valid, start.valid) == (0.7, 0.5, 0.3)
    assert last.optimal == 0.7
    assert (last.dataset, last.dataset_digest, last.instances) == (
        "chain-stage-01",
        digests["stage-01/train.parquet"],
        8,
    )
    assert (last.config, last.changes) == (
        digests["stage-01/config.json"],
        "3x3: data 50\u00a0% → 60\u00a0%; 4x4: data 50\u00a0% → 40\u00a0%",
    )
    assert (last.proposal, last.engineer, last.variant, last.gate) == (
        digests["stage-00/proposal.json"],
        "checkpoint",
        "V6",
        "go-on",
    )
    assert (last.prompt, last.prompt_version) == ("envwright-compact-V6", 1)
    assert (last.decision, last.decision_edited, last.decision_by, last.decision_via) == (
        "approve",
        True,
        "Ada",
        "form",
    )
    assert (last.decision_comment, last.decision_at) == (decision.comment, "2026-01-02T03:04:05Z")
    assert (first.proposal, first.engineer, first.changes, first.decision, first.prompt) == (
        None,
        None,
        "the default config",
        None,
        None,
    )
    assert (start.path, start.digest, start.dataset, start.parent) == (
        str(TINY_DIRECTORY),
        file_digest(TINY_DIRECTORY),
        None,
        None,
    )
    assert ancestry(store, "models:/envwright-chain@best") == [last, first, start]
    assert ancestry(store, "models:/envwright-chain/1") == [first, start]


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


def test_stages_that_were_missed_are_recorded_with_the_next_one(tracked: MlflowClient, tmp_path: Path):
    run = finished_run(tmp_path / "runs" / "missed", (3, 5, 7, 2), preset("missed"))
    record(run, 2)
    assert sorted(stage_runs(tracked, "missed"), key=str) == sorted([-1, 0, 1, 2, None], key=str)
    root = stage_runs(tracked, "missed")[None]
    assert [(m.step, m.value) for m in tracked.get_metric_history(root.info.run_id, "valid")] == [
        (0, 0.3),
        (1, 0.5),
        (2, 0.7),
        (3, 0.2),
    ], "the base policy is the first point"


def test_runs_take_the_time_that_their_stages_took(tracked: MlflowClient, tmp_path: Path):
    run = finished_run(tmp_path / "runs" / "timed", (3, 5, 7), preset("timed"))
    for number, minute in ((0, 10), (1, 20)):
        stage = run.stage(number)
        stage.write(
            Stage.manifest,
            stage.manifest
            | {"finished": f"2026-01-02T03:{minute}:00+00:00", "seconds": {"train": 60.0, "evaluate": 30.0}},
        )
    record(run, 1)
    runs = stage_runs(tracked, "timed")
    took = {number: (one.info.end_time - one.info.start_time) / 1000 for number, one in runs.items()}
    assert (took[0], took[1], took[None]) == (90, 90, 690)


def test_a_checkpoint_says_where_its_training_was_resumed(store: str, tmp_path: Path):
    run = finished_run(tmp_path / "runs" / "resumed", (3, 5, 7), preset("resumed"))
    resume = {"step": 3, "exact": False, "why": "it ran on a GPU"}
    run.stage(0).write(Stage.manifest, run.stage(0).manifest | {"resumed": [resume]})
    record(run)
    last, first, _ = ancestry(store, str(run.stage(1).checkpoint))
    assert (last.resumed, first.resumed) == (None, "step 3, not exact: it ran on a GPU")


def test_a_rule_is_recorded_without_a_context_variant(tracked: MlflowClient, tmp_path: Path):
    run = finished_run(tmp_path / "runs" / "ruled", (3, 5), preset("ruled", name="fixed"))
    record(run)
    params = stage_runs(tracked, "ruled")[0].data.params
    assert (params["engineer variant"], params["variant"]) == ("fixed", "none")


def test_runs_have_the_columns_that_variants_are_compared_by(tracked: MlflowClient, tmp_path: Path):
    posed = instances(agents=2)[:10] + instances(agents=3)[10:]
    run = finished_run(tmp_path / "runs" / "columns", (3, 5), preset("columns"), validation=posed)
    record(run)
    runs = stage_runs(tracked, "columns")
    designed = {"engineer variant": "checkpoint-V6", "variant": "V6", "engineer": "checkpoint"}
    names = {**designed, "seed": "0"}
    assert runs[0].data.params == {**names, "stage": "0", "preset": "columns", "curriculum": "columns"}
    assert runs[0].data.tags["gate"] == "go-on"
    assert (names | {"preset": "columns"}).items() <= runs[None].data.params.items()
    assert not {"preset.seed", "preset.engineer.variant"} & set(runs[None].data.params), "each is there once"
    assert [i.dataset.name for i in runs[None].inputs.dataset_inputs] == ["columns-validation"]
    assert runs[None].data.params["preset.trl.learning_rate"] == "0.0001"
    groups = {"", "/3x3", "/4x4", "/with-wait_required", "/without-wait_required"}
    assert {name for name in runs[0].data.metrics if not name.startswith("train/")} == {
        rate + group for rate in ("valid", "optimal") for group in groups
    }
    waiting = [number % 10 < 5 for number, instance in enumerate(posed) if instance.solution.wait_required]
    assert runs[0].data.metrics["valid/with-wait_required"] == pytest.approx(sum(waiting) / len(waiting))
    assert runs[-1].data.metrics["valid"] == 0.3
    assert runs[0].data.tags["prompt"] == "envwright-compact-V6"


@on_a_server_too
def test_a_proposal_is_a_trace_of_answers_and_what_was_read(tracked: MlflowClient, tmp_path: Path):
    run = finished_run(tmp_path / "runs" / "traced", (3, 5), preset("traced"))
    record(run)
    stage = stage_runs(tracked, "traced")[0]
    other, chosen = traces(tracked, stage.info.run_id)
    assert [trace.info.tags["chosen"] for trace in (other, chosen)] == ["false", "true"]
    root, *calls = sorted(
        chosen.data.spans, key=lambda span: (span.parent_id is not None, span.start_time_ns, span.name)
    )
    assert [(span.name, span.span_type, span.status.status_code.value) for span in (root, *calls)] == [
        ("design stage 1", "AGENT", "OK"),
        ("answer 1", "CHAT_MODEL", "OK"),
        ("read answer 1", "PARSER", "ERROR"),
        ("answer 2", "CHAT_MODEL", "OK"),
        ("read answer 2", "PARSER", "OK"),
    ]
    assert all(span.parent_id == root.span_id for span in calls)
    assert [((span.end_time_ns or 0) - span.start_time_ns) / 1e9 for span in (root, calls[0], calls[2])] == [
        2.5,
        1.5,
        0.5,
    ]
    assert [message["role"] for message in calls[2].inputs["messages"]] == ["user", "assistant", "user"]
    assert calls[0].outputs["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": "{"},
        "finish_reason": "length",
    }
    assert calls[0].get_attribute("mlflow.chat.tokenUsage") == {
        "input_tokens": 15,
        "output_tokens": 6,
        "total_tokens": 21,
    }
    assert calls[1].outputs == {"error": "no JSON"}
    assert calls[3].outputs["projection"] == ["shares were scaled"]
    assert chosen.info.token_usage == {"input_tokens": 30, "output_tokens": 12, "total_tokens": 42}
    assert (chosen.info.execution_duration, chosen.info.state.value) == (2500, "OK")
    assert json.loads(chosen.info.tags["mlflow.linkedPrompts"]) == [
        {"name": "envwright-compact-V6", "version": "1"}
    ]
    [model] = [output.model_id for output in stage.outputs.model_outputs]
    assert chosen.info.trace_metadata["mlflow.modelId"] == model, "the checkpoint answered"


def test_calls_that_failed_are_traces_too(tracked: MlflowClient, tmp_path: Path):
    silent = asked(0, shares(0.5), attempts=(), fallback="the model could not answer: it is down")
    run = finished_run(
        tmp_path / "runs" / "failed", (3, 5, 6), preset("failed"), proposals=(silent, asked(1, shares(0.6)))
    )
    record(run)
    runs = stage_runs(tracked, "failed")
    failed = traces(tracked, runs[0].info.run_id)[1]
    assert failed.info.state.value == "ERROR"
    assert [(span.name, span.status.description) for span in failed.data.spans if span.parent_id] == [
        ("no answer", "the model could not answer: it is down")
    ]
    assert (
        ancestry(str(os.environ["MLFLOW_TRACKING_URI"]), str(run.stage(1).checkpoint))[0].fallback
        == silent.fallback
    )


def test_a_prompt_gets_a_new_version_only_when_its_text_is_new(
    tracked: MlflowClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    versions = []
    for number, text in enumerate(
        ("{{ one }}", "{{ one }}", "{% if two %}{{ two }}{% endif %}", "{{ one }}")
    ):
        monkeypatch.setattr("infra.lineage.prompts.template_text", lambda *_, text=text: text)
        run = finished_run(tmp_path / "runs" / f"prompt-{number}", (3, 5), preset("prompted", variant="V5"))
        record(run)
        versions.append(stage_runs(tracked, f"prompt-{number}")[0].data.tags["prompt_version"])
    assert versions == ["1", "1", "2", "1"]
    stage = stage_runs(tracked, "prompt-3")[0]
    tracked.set_tag(
        stage.info.run_id, "envwright.recorded", stage.data.tags["envwright.recorded"].replace("-", "-older-")
    )
    monkeypatch.setattr("infra.lineage.prompts.template_text", lambda *_: "{{ of today }}")
    record(run)
    assert stage_runs(tracked, "prompt-3")[0].data.tags["prompt_version"] == "1", (
        "a proposal keeps the prompt that it was asked with"
    )


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


def test_a_server_that_is_down_costs_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    run = finished_run(tmp_path / "runs" / "down", (3, 5), preset("down"))
    with socket.socket() as held:  # bound, and nobody listens
        held.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:hidden@127.0.0.1:{held.getsockname()[1]}")
        with caplog.at_level(logging.WARNING, "envwright"):
            record_lineage.fn(run, 0)
    assert unrecorded(run.directory)
    assert "stage 0: lineage not recorded at http://127.0.0.1" in caplog.text
    assert "hidden" not in caplog.text


@pytest.mark.parametrize("name", ["sqlite3.IntegrityError", "psycopg2.errors.UniqueViolation"])
def test_a_row_that_another_process_adds_at_the_same_time_does_not_keep_a_stage_from_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    run = finished_run(tmp_path / "runs" / "beside", (3, 5), preset("beside"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    record, refused = tasks_lineage.record_stage, []

    def too_late_at_first(*given):
        if not refused:
            refused.append(given)
            raise MlflowException(f"BAD_REQUEST: ({name}) a row of this key is there")
        return record(*given)

    monkeypatch.setattr(tasks_lineage, "record_stage", too_late_at_first)
    assert record_lineage.fn(run, 0)
    assert refused
    assert not unrecorded(run.directory)
