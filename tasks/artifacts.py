"""Artifacts of the Prefect UI: the progress of training, and the result of a run so far with links.

Artifacts are a view: one that cannot be written is a line in the log, never the end of a run. Their keys hold
run and stage, as Prefect keeps one history a key."""

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterKey
from prefect.context import FlowRunContext, TaskRunContext
from prefect.runtime import flow_run

from infra.formats import duration
from infra.markdown import result_markdown
from infra.mlflow_log import log_progress, start_stage
from infra.results import CurriculumResults
from infra.run_status import run_name
from infra.runs.files import REPORT
from infra.runs.run import RunRef
from tasks.record import logged
from tasks.run import Throttle, log, lost


def show(create: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what `create` returns; None outside of a run of Prefect, or with a warning if it fails."""
    if not (FlowRunContext.get() or TaskRunContext.get()):
        return None
    try:
        return create(*args, **kwargs)
    except Exception as error:
        return lost("an artifact is not shown in Prefect", error)


_LATER = "its training is logged when it is complete"


class TrainingProgress:
    """Show the training of a stage while it runs, at a bearable rate: a line in the log, a bar in Prefect and
    points in MLflow, until a point cannot be logged."""

    def __init__(self, run: RunRef, stage: int) -> None:
        key, description = run_key(run, f"stage-{stage}-training"), f"Training of stage {stage}: starting"
        self._bar = show(create_progress_artifact, progress=0.0, key=key, description=description)
        self._run, self._stage, self._throttle = run, stage, Throttle()
        self._entries: list[dict[str, Any]] = []
        self._logged = logged(f"stage {stage}, start", lambda: start_stage(run, stage), _LATER)

    def __call__(self, entry: dict[str, Any]) -> None:
        """Take a progress entry of the trainer."""
        if "reward" not in entry:
            return
        self._entries.append(entry)
        if not (self._throttle.ready() or entry["step"] == entry["steps"]):
            return
        if ids := self._logged:
            subject, entries = f"stage {self._stage}, progress", self._entries
            self._logged = logged(subject, lambda: log_progress(ids, entries), _LATER)
        self._entries = []
        text = progress_text(entry)
        log.info("stage %d: %s", self._stage, text)
        if self._bar is not None:
            show(
                update_progress_artifact,
                artifact_id=self._bar,
                progress=100 * entry["step"] / entry["steps"],
                description=f"Training of stage {self._stage}: {text}",
            )


def progress_text(entry: dict[str, Any]) -> str:
    """Return a progress entry of the trainer in words; the speed is for this process, without steps before a
    resume."""
    here, elapsed, left = entry["steps_here"], entry["elapsed"], ""
    if here:
        seconds = elapsed / here * (entry["steps"] - entry["step"])
        left = f", about {duration(seconds)} of this training left"
    speed = f", {entry['tokens_here'] / elapsed:,.0f} tokens/s" if elapsed else ""
    return (
        f"step {entry['step']} of {entry['steps']}, reward {entry['reward']:.2f}, valid"
        f" {100 * entry['rewards/valid/mean']:.0f} %, groups without signal"
        f" {100 * entry['frac_reward_zero_std']:.0f} %{speed}{left}"
    )


def show_result(
    run: RunRef, results: CurriculumResults, addresses: dict[str, str], waiting: str = ""
) -> None:
    """Show the result so far on the page of the curriculum: one artifact, written again after each stage."""
    show(_write_result, run, results, addresses, waiting)


def _write_result(run: RunRef, results: CurriculumResults, addresses: dict[str, str], waiting: str) -> None:
    places = {"report": str(run.path(REPORT).resolve()), **addresses}
    markdown = result_markdown(run.preset, results, places, waiting)
    so_far = " so far" if len(results.stages) < run.preset.stages else ""
    key, description = run_key(run, "result"), f"{run.name}: result{so_far}"
    this_run = ArtifactFilterFlowRunId(any_=[UUID(flow_run.id)])
    with get_client(sync_client=True) as client:
        earlier = ArtifactFilter(key=ArtifactFilterKey(any_=[key]), flow_run_id=this_run)
        if artifacts := client.read_artifacts(artifact_filter=earlier):
            update = ArtifactUpdate(data=markdown, description=description)
            client.update_artifact(artifacts[0].id, update)
        else:
            create_markdown_artifact(markdown=markdown, key=key, description=description)


def run_key(run: RunRef, what: str) -> str:
    """Return the key of an artifact of a curriculum: small letters, digits and dashes, as Prefect wants."""
    # Runs of two comparisons have the same names.
    return re.sub(r"[^a-z0-9]+", "-", f"{run_name(run.directory)}-{what}".lower()).strip("-")
