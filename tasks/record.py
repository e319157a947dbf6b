"""Show a run while it goes on: in MLflow from its first minute, and as an artifact in Prefect. A view that
cannot be written is a line in the log, never the end of a run."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterKey
from prefect.context import FlowRunContext
from prefect.runtime import flow_run

from infra.config.settings import Settings, run_name, without_password
from infra.formats import duration
from infra.results import CurriculumResults
from infra.runs.files import REPORT
from infra.runs.run import Run
from tasks.run import Throttle, log, lost, task_options

T = TypeVar("T")
_LATER = "its training is logged when it is complete"


def logged(subject: str, call: Callable[[Any], T], remedy: str = "") -> T | None:
    """Return what a call of the module `infra.mlflow_log` returns; None with a warning if it fails."""
    try:
        from infra import mlflow_log  # takes seconds to import

        return call(mlflow_log)
    except Exception as error:
        place = without_password(Settings().tracking_uri)
        lost(f"{subject}: not logged to MLflow at {place}{remedy and '; '}{remedy}", error)
        return None


@task(**task_options("mlflow"), retries=1, retry_delay_seconds=2)
def _log_stages(run: Run, stage: int) -> dict[str, str]:
    from infra.mlflow_log import log_stages

    return log_stages(run, stage)


def record_start(run: Run) -> None:
    """Create the run of a curriculum, or mark it as running."""
    logged(run.name, lambda mlflow: mlflow.start_curriculum(run))


def record_stages(run: Run, stage: int) -> dict[str, str]:
    """Log a stage, and the stages before it that are not logged yet; return where MLflow shows them."""
    later = "it is logged with the next stage, or when the same command runs again"
    return logged(f"stage {stage}", lambda _: _log_stages(run, stage), later) or {}


@contextmanager
def recorded(run: Run) -> Iterator[None]:
    """Mark what was running in MLflow as failed or killed if an error or a signal ends the flow."""
    try:
        yield
    except BaseException as error:
        status = "FAILED" if isinstance(error, Exception) else "KILLED"
        logged(run.name, lambda mlflow: mlflow.end_runs(run, status))
        raise


class TrainingProgress:
    """Show the training of a stage while it runs: a line in the log, and points in MLflow until one fails."""

    def __init__(self, run: Run, stage: int) -> None:
        self._stage, self._throttle, self._space = stage, Throttle(), run.preset.space
        self._entries: list[dict[str, Any]] = []
        self._ids = logged(f"stage {stage}, start", lambda mlflow: mlflow.start_stage(run, stage), _LATER)

    def __call__(self, entry: dict[str, Any]) -> None:
        """Take a progress entry of the trainer."""
        if "reward" not in entry:
            return
        self._entries.append(entry)
        if not (self._throttle.ready() or entry["step"] == entry["steps"]):
            return
        log.info("stage %d: %s", self._stage, progress_text(entry))
        if ids := self._ids:
            subject, entries = f"stage {self._stage}, progress", self._entries
            self._ids = logged(subject, lambda mlflow: mlflow.log_progress(ids, self._space, entries), _LATER)
        self._entries = []


def progress_text(entry: dict[str, Any]) -> str:
    """Return a progress entry of the trainer in words; its speed leaves out steps before a resume."""
    here, elapsed, left = entry["steps_here"], entry["elapsed"], ""
    if here:
        seconds = elapsed / here * (entry["steps"] - entry["step"])
        left = f", about {duration(seconds)} of this training left" if seconds else ""
    speed = f", {entry['tokens_here'] / elapsed:,.0f} tokens/s" if elapsed else ""
    done = f"step {entry['step']} of {entry['steps']}, reward {entry['reward']:.2f}"
    valid, silent = 100 * entry["rewards/valid/mean"], 100 * entry["frac_reward_zero_std"]
    return f"{done}, valid {valid:.0f} %, groups without signal {silent:.0f} %{speed}{left}"


def show_result(run: Run, results: CurriculumResults, addresses: dict[str, str], waiting: str = "") -> None:
    """Show the result so far on the page of the curriculum: one artifact, written again after each stage."""
    if not FlowRunContext.get():
        return
    try:
        _write_result(run, results, addresses, waiting)
    except Exception as error:
        lost("the result is not shown in Prefect", error)


def _write_result(run: Run, results: CurriculumResults, addresses: dict[str, str], waiting: str) -> None:
    from infra.markdown import result_markdown

    places = {"report": str(run.path(REPORT).resolve()), **addresses}
    markdown = result_markdown(run, results, places, waiting)
    so_far = " so far" if len(results.stages) < run.preset.stages else ""
    # Runs of two comparisons have the same names; keys have small letters, digits and dashes.
    key = re.sub(r"[^a-z0-9]+", "-", f"{run_name(run.directory)}-result".lower()).strip("-")
    description = f"{run.name}: result{so_far}"
    this_run = ArtifactFilterFlowRunId(any_=[UUID(flow_run.id)])
    with get_client(sync_client=True) as client:
        earlier = ArtifactFilter(key=ArtifactFilterKey(any_=[key]), flow_run_id=this_run)
        if artifacts := client.read_artifacts(artifact_filter=earlier):
            client.update_artifact(artifacts[0].id, ArtifactUpdate(data=markdown, description=description))
        else:
            create_markdown_artifact(markdown=markdown, key=key, description=description)
