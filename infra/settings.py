"""Where things are on this machine, from the environment (`ENVWRIGHT_...`) with defaults in the working directory."""

import os
from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Machine settings; nothing in here changes a result."""

    model_config = SettingsConfigDict(env_prefix="ENVWRIGHT_", env_ignore_empty=True, frozen=True)
    runs: Path = Path("runs")
    """Folder of the curricula."""
    workers: int = min(os.cpu_count() or 1, 8)
    """Processes that draw instances."""
    parent_run: str | None = None
    """MLflow run under which curricula are recorded: that of the comparison they belong to."""

    @property
    def tracking_uri(self) -> str:
        """MLflow's store: `MLFLOW_TRACKING_URI`, or a database beside the runs."""
        return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.runs.resolve()}/mlflow.db"

    def run_directory(self, name: str) -> Path:
        """The directory of a curriculum, given by name or by path."""
        return Path(name) if "/" in name or Path(name).is_dir() else self.runs / name
