"""What MLflow knows of a curriculum once its stages are recorded: in a database, and on a server."""

import json
import logging
import os
import shutil
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest
from finished_runs import asked, finished_run, instances, shares
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from recorded_runs import on_a_server_too, preset, record, stage_runs, traces

from envgen.files import file_digest
from infra.lineage.ancestry import ancestry
from infra.runs.decision import Decision
from infra.runs.run import RunRef
from infra.runs.stage import Stage
from policy.checkpoints import TINY_DIRECTORY
from tasks import lineage as tasks_lineage
from tasks.lineage import record_lineage, unrecorded

pytestmark = pytest.mark.usefixtures("tracked")


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
    run.stage(0).write(Stage.manifest, run.stage(0).manifest | {"resumed": [3]})
    record(run)
    last, first, _ = ancestry(store, str(run.stage(1).checkpoint))
    assert (last.resumed, first.resumed) == (None, "step 3")


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
    [trace] = traces(tracked, stage.info.run_id)
    root, *calls = sorted(
        trace.data.spans, key=lambda span: (span.parent_id is not None, span.start_time_ns, span.name)
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
    assert trace.info.token_usage == {"input_tokens": 30, "output_tokens": 12, "total_tokens": 42}
    assert (trace.info.execution_duration, trace.info.state.value) == (2500, "OK")
    assert json.loads(trace.info.tags["mlflow.linkedPrompts"]) == [
        {"name": "envwright-compact-V6", "version": "1"}
    ]
    [model] = [output.model_id for output in stage.outputs.model_outputs]
    assert trace.info.trace_metadata["mlflow.modelId"] == model, "the checkpoint answered"


def test_calls_that_failed_are_traces_too(tracked: MlflowClient, tmp_path: Path):
    silent = asked(0, shares(0.5), attempts=(), fallback="the model could not answer: it is down")
    run = finished_run(
        tmp_path / "runs" / "failed", (3, 5, 6), preset("failed"), proposals=(silent, asked(1, shares(0.6)))
    )
    record(run)
    runs = stage_runs(tracked, "failed")
    [failed] = traces(tracked, runs[0].info.run_id)
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
