"""Where things are on this machine, from the environment (`ENVWRIGHT_...`) with defaults in the working
directory; names of directories in the runs folder."""

import difflib
import os
import re
from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints
from pydantic_settings import BaseSettings, SettingsConfigDict

from envgen.errors import ConfigError, excerpt

# SQLAlchemy takes passwords with a slash or an @ in them.
_LOGIN = re.compile(r"(?<=://)(?:[^:/?#@\s]*:\S*|[^/?#\s]*)@")
_SECRET = re.compile(r"(?i)([?&][^=&\s]*(?:password|passwd|pwd|secret|token|key|sig)[^=&\s]*=)[^&#\s]*")
TAG = "envwright"
"""Tag of every flow run of ours in Prefect."""
RESERVED = ("benchmarks", "profiles", "mlartifacts", "mlflow.db")
"""What else lies in the runs folder, besides files that start with a dot."""
_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]*"
Stem = Annotated[str, StringConstraints(max_length=60, pattern=rf"^{_PATTERN}$")]
"""The name of a preset or spec, which the default names of its directories are made from."""


def is_name(name: str) -> bool:
    """Whether a run, comparison or benchmark can have this name."""
    # The database has journals beside it, and some file systems take capitals for small letters.
    short = len(name) <= 128 and re.fullmatch(_PATTERN, name) is not None
    return short and not name.lower().startswith(RESERVED)


def checked_name(name: str, field: str = "--name") -> str:
    """Return the name of a run, comparison or benchmark; ConfigError with its field if it cannot be one."""
    if is_name(name):
        return name
    raise ConfigError(
        f"{field} {excerpt(name)}: a name has 1 to 128 letters, digits, dots, underscores and dashes, the"
        f" first a letter or digit; it does not begin with {', '.join(RESERVED[:-1])} or {RESERVED[-1]}, for"
        " example my-run-2; the folder that it lies in is ENVWRIGHT_RUNS"
    )


class Settings(BaseSettings):
    """Machine settings; nothing in here changes a result."""

    model_config = SettingsConfigDict(env_prefix="ENVWRIGHT_", env_ignore_empty=True, frozen=True)
    runs: Path = Path("runs")
    """Folder of the curricula."""
    parent_run: str | None = None
    """MLflow run under which curricula are recorded: the run of the comparison they belong to."""

    @property
    def tracking_uri(self) -> str:
        """MLflow's store: `MLFLOW_TRACKING_URI`, or a database beside the runs."""
        runs = str(self.runs.resolve()).replace("%", "%25").replace("?", "%3F")  # the rest stands for itself
        return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{runs}/mlflow.db"

    def run_directory(self, name: str, field: str = "--name") -> Path:
        """Return the directory of this name in the runs folder; ConfigError if no directory can have it."""
        return self.runs / checked_name(name, field)

    def find_run(self, run: str) -> Path:
        """Return the directory that RUN of a command names: a path if it has a separator in it or starts with
        a dot, else a name in the runs folder, as COMPARISON/NAME; ConfigError with similar names."""
        if os.sep in run or run.startswith("."):
            path, below = Path(run), self.runs / run
            outside = run.startswith(".") or path.exists() or ".." in path.parts or not below.is_dir()
            return path.resolve() if outside else below
        directory = self.run_directory(run, "RUN")
        names = [path.name for path in self.runs.glob("[!.]*/")] if not directory.exists() else []
        if near := difflib.get_close_matches(run, names, n=3):
            raise ConfigError(f"{directory}: no such run; did you mean {' or '.join(map(repr, near))}?")
        return directory


def run_name(directory: Path) -> str:
    """Return the RUN of commands: the path of a run in the runs folder, or all of its path."""
    runs, path = Settings().runs.resolve(), directory.resolve()
    return str(path.relative_to(runs)) if path.is_relative_to(runs) else str(path)


def without_password(text: object) -> str:
    """A text as it may be shown: the addresses in it without user, password and other secrets."""
    return _SECRET.sub(r"\1***", _LOGIN.sub("", str(text)))
