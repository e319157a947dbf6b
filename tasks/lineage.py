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

_ROW_IS_THERE = "IntegrityError", "UniqueViolation"
"""What SQLite and PostgreSQL call it, in the message that MLflow passes on."""


@task(**task_options("lineage"))
def record_lineage(run: RunRef, stage: int) -> dict[str, str]:
    """Record a finished stage in MLflow; where to read of it there.

    If MLflow cannot be reached the run goes on, and the next resume records the stage.
    """
    settings, marker = Settings(), run.stage(stage).directory / _UNRECORDED
    marker.touch()
    try:
        addresses = _record(settings, run, stage)
        marker.unlink()
        return addresses
    except BUGS:
        raise
    except Exception as error:  # a lost record is not worth a lost run
        place, why = without_password(settings.tracking_uri), without_password(error)
        remedy = "run the same command again to record it"
        log.warning("stage %d: lineage not recorded at %s: %s; %s", stage, place, why, remedy)
        return {}


def _record(settings: Settings, run: RunRef, stage: int, tries: int = 3) -> dict[str, str]:
    """Record a stage, again if another process added the same row to MLflow's database at the same time."""
    try:
        artifacts = settings.runs / "mlartifacts"
        recorder = Recorder(settings.tracking_uri, artifacts, run.preset.name, settings.parent_run)
        return recorder.addresses(record_stage(recorder, run, stage))
    except Exception as error:
        if tries == 1 or not any(name in str(error) for name in _ROW_IS_THERE):
            raise
        return _record(settings, run, stage, tries - 1)


def unrecorded(directory: Path) -> bool:
    """Whether MLflow lacks a finished stage of a run directory."""
    return any(directory.glob(f"stage-*/{_UNRECORDED}"))
