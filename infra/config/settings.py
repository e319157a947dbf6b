"""Where things are on this machine, from the environment (`ENVWRIGHT_...`) with defaults in the working
directory."""

import os
import re
from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict

from infra.config.names import checked_name

# SQLAlchemy takes passwords with a slash or an @ in them.
_LOGIN = re.compile(r"(?<=://)(?:[^:/?#@\s]*:\S*|[^/?#\s]*)@")
_SECRET = re.compile(r"(?i)([?&][^=&\s]*(?:password|passwd|pwd|secret|token|key|sig)[^=&\s]*=)[^&#\s]*")


class Settings(BaseSettings):
    """Machine settings; nothing in here changes a result."""

    model_config = SettingsConfigDict(env_prefix="ENVWRIGHT_", env_ignore_empty=True, frozen=True)
    runs: Path = Path("runs")
    """Folder of the curricula."""
    remote: str | None = None
    """URL (fsspec: `s3://bucket/prefix`, `file:///mnt/copies`) under which finished stages are copied, and
    from which missing ones are fetched."""
    parent_run: str | None = None
    """MLflow run under which curricula are recorded: that of the comparison they belong to."""

    @property
    def tracking_uri(self) -> str:
        """MLflow's store: `MLFLOW_TRACKING_URI`, or a database beside the runs."""
        return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.runs.resolve()}/mlflow.db"

    def run_directory(self, name: str) -> Path:
        """The directory of this name in the runs folder; ConfigError if it is no
        `infra.config.names.Name`."""
        return self.runs / checked_name(name)

    def find_run(self, run: str) -> Path:
        """The directory that a command is given as RUN: a path if it has a separator in it or starts with a
        dot, else a name in the runs folder. COMPARISON/NAME is looked for there too."""
        if os.sep in run or run.startswith("."):
            among = self.runs / run
            inside = not run.startswith((".", os.sep)) and ".." not in among.parts
            return (
                among if inside and not os.path.exists(run) and os.path.isdir(among) else Path(run).resolve()
            )
        return self.runs / checked_name(run, "RUN")


def without_password(text: object) -> str:
    """A text as it may be shown: the addresses in it without user, password and other secrets."""
    return _SECRET.sub(r"\1***", _LOGIN.sub("", str(text)))
