"""Record a run in MLflow from its first minute on. A failure of MLflow is a line in the log, never the end of
a run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from prefect import task

from infra.config.settings import Settings, without_password
from infra.mlflow_log import end_runs, log_stages, start_curriculum
from infra.runs.run import RunRef
from tasks.run import lost, task_options

T = TypeVar("T")


@task(**task_options("mlflow"), retries=1, retry_delay_seconds=2)
def _log_stages(run: RunRef, stage: int) -> dict[str, str]:
    return log_stages(run, stage)


def record_start(run: RunRef) -> None:
    """Create the run of a curriculum, or mark it as running."""
    logged(run.name, lambda: start_curriculum(run))


def record_stages(run: RunRef, stage: int) -> dict[str, str]:
    """Log a stage, and the stages before it that are not logged yet; return where MLflow shows them."""
    later = "it is logged with the next stage, or when the same command runs again"
    return logged(f"stage {stage}", lambda: _log_stages(run, stage), later) or {}


@contextmanager
def recorded(run: RunRef) -> Iterator[None]:
    """Mark what was running in MLflow as failed or killed if an error or a signal ends the flow."""
    try:
        yield
    except BaseException as error:
        status = "FAILED" if isinstance(error, Exception) else "KILLED"
        logged(run.name, lambda: end_runs(run, status))
        raise


def logged(subject: str, call: Callable[[], T], remedy: str = "") -> T | None:
    """Return what a call of MLflow returns; None with a warning if it fails."""
    try:
        return call()
    except Exception as error:
        place = without_password(Settings().tracking_uri)
        lost(f"{subject}: not logged to MLflow at {place}{remedy and '; '}{remedy}", error)
        return None
