"""Keep a copy of a run under `ENVWRIGHT_REMOTE`, and start from the one that is there. A remote that is down
costs no run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock
from prefect import task

from envgen.errors import ConfigError, RunDirectoryError
from infra.config.preset import Preset
from infra.config.settings import Settings, without_password
from infra.runs.files import MANIFEST
from infra.runs.run import Run
from tasks.run import log, lost, task_options


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
    if remote := remote_of(directory):
        _fetch(directory, remote)


def copy_run(directory: Path) -> None:
    """Copy the finished stages of a run to the remote; nothing if none is set. What could not be sent goes
    with the next stage."""
    if remote := remote_of(directory):
        _copy(directory, remote)


def fork_run(root: Path, directory: Path, preset: Preset) -> None:
    """Start a run that is not here from the stage 0 of another one, which is fetched if it is not here
    either; RunDirectoryError if it is nowhere."""
    if directory.exists():
        return
    from infra.runs.fork import fork

    shared = Run(directory=root)
    # The curricula of a comparison that begin on a machine at the same time fetch it once.
    with FileLock(root.parent / ".locks" / f"{root.name}.fetch.lock"):
        if not shared.has(MANIFEST, 0):
            fetch_run(root)
    if not shared.has(MANIFEST, 0):
        raise RunDirectoryError(
            f"{shared.folder(0)}: this run starts from that stage, which is neither here nor at a remote;"
            " this machine needs the ENVWRIGHT_RUNS or the ENVWRIGHT_REMOTE of the one that ran it"
        )
    fork(root, directory, preset)


@task(**task_options("fetch"))
def _fetch(directory: Path, remote: str) -> None:
    from infra.runs.sync import pull

    place = without_password(remote)
    with _costs_no_run(f"nothing fetched from {place}; the run goes on with what is here"):
        for name in pull(remote, directory):
            log.info("%s fetched from %s/%s", name, place, directory.name)


@task(**task_options("copy"))
def _copy(directory: Path, remote: str) -> None:
    from infra.runs.sync import push

    place = without_password(remote)
    with _costs_no_run(f"not copied to {place}; what is missing there goes with the next stage"):
        log.info("%d files copied to %s/%s", push(directory, remote), place, directory.name)


@contextmanager
def _costs_no_run(what: str) -> Iterator[None]:
    """Log what fails; only a remote that can never work is an error."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        lost(what, error)
