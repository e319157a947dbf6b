"""Log finished stages to MLflow. A failure of MLflow is a line in the log, never the end of a run."""

from collections.abc import Callable
from typing import TypeVar

from prefect import task

from infra.config.settings import Settings, without_password
from infra.lineage.log import log_stages
from infra.runs.run import RunRef
from tasks.run import lost, task_options

T = TypeVar("T")


@task(**task_options("lineage"), retries=1, retry_delay_seconds=2)
def _log_stages(run: RunRef, stage: int) -> dict[str, str]:
    return log_stages(run, stage)


def record_lineage(run: RunRef, stage: int) -> dict[str, str]:
    """Log a stage, and those before it that are not logged yet; return where MLflow shows them.

    A stage that cannot be logged is logged with the next one, or when the run is continued.
    """
    return logged(f"stage {stage}", lambda: _log_stages(run, stage)) or {}


def logged(subject: str, call: Callable[[], T]) -> T | None:
    """Return what a call of MLflow returns; None with a warning if it fails."""
    try:
        return call()
    except Exception as error:
        place = without_password(Settings().tracking_uri)
        lost(f"{subject}: not logged to MLflow at {place}; run the same command again to log it", error)
        return None
