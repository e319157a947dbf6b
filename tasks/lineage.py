"""Record a finished stage in MLflow."""

from pathlib import Path

from prefect import task

from envgen.errors import BUGS
from infra.config.settings import Settings, without_password
from infra.lineage import Recorder
from infra.lineage.recording import record_stage
from infra.runs.run import RunRef
from tasks.run import log, task_options

_UNRECORDED = ".unrecorded"
"""In the directory of a stage that MLflow does not know yet."""


@task(**task_options("lineage"))
def record_lineage(run: RunRef, stage: int) -> dict[str, str]:
    """Record a finished stage in MLflow; where to read of it there.

    If MLflow cannot be reached the run goes on, and the next resume records the stage.
    """
    settings, marker = Settings(), run.stage(stage).directory / _UNRECORDED
    marker.touch()
    try:
        recorder = Recorder(settings.tracking_uri, settings.runs / "mlartifacts")
        recorded = record_stage(recorder, run, stage)
        marker.unlink()
        return recorder.addresses(recorded)
    except BUGS:
        raise
    except Exception as error:  # a lost record is not worth a lost run
        place, why = without_password(settings.tracking_uri), without_password(error)
        remedy = "run the same command again to record it"
        log.warning("stage %d: lineage not recorded at %s: %s; %s", stage, place, why, remedy)
        return {}


def unrecorded(directory: Path) -> bool:
    """Whether MLflow lacks a finished stage of a run directory."""
    return any(directory.glob(f"stage-*/{_UNRECORDED}"))
