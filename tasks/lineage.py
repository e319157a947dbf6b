"""Log finished stages to MLflow. A failure of MLflow is a line in the log, never the end of a run."""

from prefect import task

from infra.config.settings import Settings, without_password
from infra.lineage.log import log_stages
from infra.runs.run import RunRef
from tasks.run import log, task_options


@task(**task_options("lineage"), retries=1, retry_delay_seconds=2)
def _log_stages(run: RunRef, stage: int) -> dict[str, str]:
    return log_stages(run, stage)


def record_lineage(run: RunRef, stage: int) -> dict[str, str]:
    """Log a stage, and those before it that are not logged yet; return where MLflow shows them.

    A stage that cannot be logged is logged with the next one, or when the run is continued.
    """
    try:
        return _log_stages(run, stage)
    except Exception as error:  # a lost record is not worth a lost run
        place, reason = without_password(Settings().tracking_uri), without_password(error)
        remedy = "run the same command again to log it"
        log.warning(
            "stage %d: not logged to MLflow at %s: %s: %s; %s",
            stage,
            place,
            type(error).__name__,
            reason,
            remedy,
        )
        return {}
