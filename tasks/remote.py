"""Keep a copy of a run under `ENVWRIGHT_REMOTE`, and start from the one that is there. A remote that is down
costs no run."""

from pathlib import Path

from prefect import task

from envgen.errors import BUGS, ConfigError
from infra.config.settings import Settings, without_password
from infra.runs.remote import pull, push
from tasks.run import log, task_options


def remote_of(directory: Path) -> str | None:
    """The remote folder that holds a run's copy: runs of a comparison lie in its folder there too. None if no
    remote is set."""
    settings = Settings()
    if not settings.remote:
        return None
    runs, run = settings.runs.resolve(), directory.resolve()
    folder = run.parent.relative_to(runs).parts if run.parent.is_relative_to(runs) else ()
    return "/".join([settings.remote.rstrip("/"), *folder])


def fetch_run(directory: Path) -> None:
    """Fetch what the remote has of a run and this machine has not; nothing if no remote is set."""
    remote = remote_of(directory)
    if remote:
        _fetch(directory, remote)


def copy_run(directory: Path) -> None:
    """Copy the finished stages of a run to the remote; nothing if none is set. What could not be sent goes
    with the next stage."""
    remote = remote_of(directory)
    if remote:
        _copy(directory, remote)


@task(**task_options("fetch"))
def _fetch(directory: Path, remote: str) -> None:
    try:
        for name in pull(remote, directory):
            log.info("%s fetched from %s/%s", name, without_password(remote), directory.name)
    except (ConfigError, *BUGS):
        raise
    except Exception as error:  # whatever a file system raises: the run can do without
        log.warning(
            "nothing fetched from %s: %s; the run goes on with what is here",
            without_password(remote),
            without_password(error),
        )


@task(**task_options("copy"))
def _copy(directory: Path, remote: str) -> None:
    try:
        log.info(
            "%d files copied to %s/%s", push(directory, remote), without_password(remote), directory.name
        )
    except BUGS:
        raise
    except Exception as error:  # whatever a file system raises: a lost copy is not worth a lost run
        log.warning(
            "not copied to %s: %s; what is missing there goes with the next stage",
            without_password(remote),
            without_password(error),
        )
