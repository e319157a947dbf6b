"""`envwright serve`: Prefect server, MLflow server and workers on this machine, brought up, watched and taken
down together."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from envgen.errors import ConfigError, RunDirectoryError
from flows.stopping import awaited
from infra.config.settings import Settings, without_password
from infra.runs.lease import exclusive
from infra.serving import marked_processes, project_file
from infra.serving.addresses import Addresses
from infra.serving.auth import CLIENT, SERVER, Login, choose_login
from infra.serving.crashed_runs import crash_taken, crash_unstarted
from infra.serving.names import POOLS, worker_name
from infra.serving.services import Service, Worker, stop_all, wait_until_ready

Say = Callable[[str], None]
_WATCH, _LONGEST_DELAY, _SETTLED = 0.5, 60.0, 60.0


@contextmanager
def alone() -> Iterator[None]:
    """Be the only `envwright serve` over the runs of this folder; ConfigError if another one is."""
    runs = Settings().runs.resolve()
    try:
        with exclusive(runs / ".serve"):
            yield
    except RunDirectoryError:
        raise ConfigError(
            f"{runs}: another envwright serve is at work there; end it, or name another folder: export"
            " ENVWRIGHT_RUNS=FOLDER"
        ) from None


def serve(addresses: Addresses, limit: int, resume: int, say: Say) -> None:
    """Bring everything up, keep it up until a signal asks for the end, and take it down.

    ChildError if a server fails, ConfigError if an auth string that the user set cannot be one.
    """
    settings, login = Settings(), choose_login()
    folder = settings.runs.resolve() / ".serve"
    folder.mkdir(parents=True, exist_ok=True)
    with _guarded(addresses) as mark, awaited(mark) as stopped:
        environment = _environment(addresses, settings, login, mark)
        servers = _servers(addresses, settings, login, environment, folder)
        workers = [_worker(pool, environment, folder) for pool in POOLS]
        watched = [*workers, _janitor(resume, environment, folder)]
        try:
            if not _start(addresses, login, servers, watched, limit, environment, folder, say, stopped):
                return
            _watch(addresses, login, servers, watched, say, stopped)
        finally:
            stop_all(watched)
            crash_taken(
                addresses.api,
                login.auth_string,
                [*POOLS],
                {process for worker in workers for process in worker.runs},
            )
            stop_all(servers)
            marked_processes.kill_marked(mark)
            say("everything is stopped")


def _start(
    addresses: Addresses,
    login: Login,
    servers: list[Service],
    watched: list[Service],
    limit: int,
    environment: dict[str, str],
    folder: Path,
    say: Say,
    stopped: Callable[[float], bool],
) -> bool:
    """Whether all came up; False if a signal came first."""
    began = time.monotonic()
    say(
        f"starting {' and '.join(server.name for server in servers)}; a new database takes half a minute"
        f" (logs: {folder})"
    )
    for server in servers:
        server.start()
    if not wait_until_ready(servers, say, stopped):
        return False
    written = project_file.write(addresses.api, login.auth_string)
    deployer = Service(
        "envwright deploy", "flows.cli", ["deploy", "--limit", str(limit)], environment, folder / "deploy.log"
    )
    say("making work pools and deployments ...")
    deployer.start()
    try:
        while not deployer.ended:
            if stopped(0.1):
                return False
    finally:
        deployer.stop()
    if deployer.process is None or deployer.process.returncode:
        raise deployer.failure("failed")
    crash_unstarted(addresses.api, login.auth_string, POOLS)
    for service in watched:
        service.start()
    _tell(addresses, login, servers, written, time.monotonic() - began, say)
    return True


def _watch(
    addresses: Addresses,
    login: Login,
    servers: list[Service],
    watched: list[Service],
    say: Say,
    stopped: Callable[[float], bool],
) -> None:
    """Until a signal comes: a server that ends is a failure, a worker or janitor that ends is started
    again."""
    delays, due = {service.name: 1.0 for service in watched}, {}
    while not stopped(_WATCH):
        for server in servers:
            if server.ended:
                raise server.failure("ended; the rest is taken down")
        now = time.monotonic()
        for service in watched:
            if service.process is None or not service.ended:
                continue
            if service.name not in due:
                delays[service.name] = (
                    1.0 if now - service.started > _SETTLED else min(2 * delays[service.name], _LONGEST_DELAY)
                )
                due[service.name] = now + delays[service.name]
                ended = f"{service.name} ended with exit code {service.process.returncode}"
                say(f"{ended}; starting it again in {delays[service.name]:.0f} s ({service.log})")
            elif now >= due[service.name]:
                del due[service.name]
                service.stop()
                if isinstance(service, Worker):
                    crash_unstarted(addresses.api, login.auth_string, [service.pool])
                service.start()


def _tell(
    addresses: Addresses, login: Login, servers: list[Service], written: bool, seconds: float, say: Say
) -> None:
    say(f"ready after {seconds:.0f} s")
    say(f"  Prefect  http://{addresses.shown_host}:{addresses.prefect}")
    say(f"    log in with {login.shown}")
    if len(servers) > 1:
        say(f"  MLflow   http://{addresses.shown_host}:{addresses.mlflow}")
    else:
        say(f"  MLflow   {without_password(Settings().tracking_uri)} (MLFLOW_TRACKING_URI)")
    if not addresses.loopback:
        say(
            f"warning: --host {addresses.host}: MLflow asks for no login, and Prefect's login crosses the"
            " network unencrypted; put a proxy with TLS in front"
        )
    if not written:
        say(
            f"{project_file.FILE} is yours and was left alone; in other terminals first: export"
            f" PREFECT_API_URL={addresses.api}"
        )
        say(f"  and export {CLIENT} with {login.shown}")
    say("in another terminal in this folder: prefect deployment run curriculum/tiny --watch")
    say("Ctrl-C ends it all")


def _environment(addresses: Addresses, settings: Settings, login: Login, mark: str) -> dict[str, str]:
    """What servers and workers are told, over what is in this process' environment."""
    home = os.environ.get("PREFECT_HOME") or str(settings.runs.resolve() / ".prefect")
    ui = f"http://{addresses.shown_host}:{addresses.prefect}"
    direct = ",".join(
        filter(
            None,
            [
                os.environ.get("NO_PROXY") or os.environ.get("no_proxy"),
                "127.0.0.1,localhost",
                addresses.local_host,
            ],
        )
    )
    return {
        marked_processes.VARIABLE: mark,
        "NO_PROXY": direct,
        "no_proxy": direct,
        "ENVWRIGHT_RUNS": str(settings.runs.resolve()),
        "MLFLOW_TRACKING_URI": settings.tracking_uri if _remote(settings) else addresses.tracking,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PREFECT_HOME": home,
        "PREFECT_LOCAL_STORAGE_PATH": os.environ.get("PREFECT_LOCAL_STORAGE_PATH") or f"{home}/storage",
        "PREFECT_API_URL": addresses.api,
        CLIENT: login.auth_string,
        "PREFECT_UI_URL": ui,
        "PREFECT_UI_API_URL": f"{ui}/api",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_WORKER_QUERY_SECONDS": os.environ.get("PREFECT_WORKER_QUERY_SECONDS") or "2",
        "DO_NOT_TRACK": "1",
    }


def _remote(settings: Settings) -> bool:
    """Whether another MLflow server is in charge."""
    return settings.tracking_uri.startswith(("http://", "https://"))


def _servers(
    addresses: Addresses, settings: Settings, login: Login, environment: dict[str, str], folder: Path
) -> list[Service]:
    # Where it is exposed its names are not known, and the auth string alone protects it.
    names = addresses.hosts if addresses.loopback else ["*"]
    protected = {
        **environment,
        SERVER: login.auth_string,
        "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": ",".join(addresses.origins),
    }
    arguments = [addresses.host, str(addresses.prefect), *names]
    prefect = Service(
        "Prefect server",
        "infra.serving.prefect_server",
        arguments,
        protected,
        folder / "prefect.log",
        f"{addresses.api}/health",
    )
    if _remote(settings):
        return [prefect]
    # The folder that runs without a server write to, so that both see the same artifacts.
    artifacts = [
        "--no-serve-artifacts",
        "--default-artifact-root",
        (settings.runs.resolve() / "mlartifacts").as_uri(),
    ]
    hosts = [] if addresses.loopback else ["--allowed-hosts", "*"]
    options = [
        "server",
        "--host",
        addresses.host,
        "--port",
        str(addresses.mlflow),
        "--workers",
        "1",
        *artifacts,
        *hosts,
    ]
    # Everybody on this machine can read command lines, and the address may hold a password.
    store = {**environment, "MLFLOW_BACKEND_STORE_URI": settings.tracking_uri}
    return [
        prefect,
        Service(
            "MLflow server", "mlflow", options, store, folder / "mlflow.log", f"{addresses.tracking}/health"
        ),
    ]


def _worker(pool: str, environment: dict[str, str], folder: Path) -> Worker:
    arguments = [
        "worker",
        "start",
        "--pool",
        pool,
        "--type",
        "process",
        "--name",
        worker_name(pool),
    ]
    log = folder / f"worker-{pool}.log"
    return Worker(f"worker {pool}", "prefect", arguments, environment, log, pool=pool)


def _janitor(resume: int, environment: dict[str, str], folder: Path) -> Service:
    arguments = ["janitor", "--resume", str(resume)]
    return Service("janitor", "flows.cli", arguments, environment, folder / "janitor.log")


@contextmanager
def _guarded(addresses: Addresses) -> Iterator[str]:
    """The mark of what is started here. Whatever becomes of this process, another one kills all that carries
    it."""
    mark = marked_processes.new_mark()
    guard = marked_processes.start_guard(mark, addresses.api, str(project_file.FILE.resolve()))
    try:
        yield mark
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait(60)
