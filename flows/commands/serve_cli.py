"""`envwright serve`: Prefect's server, MLflow's server and a worker as one process group."""

import os
import shlex
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import psutil
import typer

from envgen.errors import ConfigError
from envgen.files import write_text
from envgen.terminal import say
from flows.environment import ENDS_WITH_WORKER, prepare
from infra.config.settings import Settings, without_password
from infra.runs.lock import exclusive
from infra.serving.access import CLIENT, HOSTS, SERVER, choose_login
from infra.serving.group import ProcessGroup

_EVERYWHERE = {"0.0.0.0", "::"}


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but loopback lets other machines log in.")
    ] = "127.0.0.1",
    prefect_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of Prefect.")] = 4200,
    mlflow_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of MLflow.")] = 5000,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Another host name that browsers use, for example of a proxy; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Runs at a time; more wait for their turn.")] = 1,
) -> None:
    """Run a Prefect server, an MLflow server and a worker on this machine until Ctrl-C.

    Example: `envwright serve`
    """
    prepare()
    runs, new_login, everywhere = Settings().runs.resolve(), not os.environ.get(CLIENT), host in _EVERYWHERE
    local = "127.0.0.1" if everywhere else f"[{host}]" if ":" in host else host
    store = mlflow_store(f"http://{local}:{mlflow_port}")
    own_mlflow = not store.startswith(("http://", "https://"))
    for port in [prefect_port, mlflow_port] if own_mlflow else [prefect_port]:
        _check_port(host, port)
    ui = f"http://{socket.gethostname() if everywhere else local}"
    clients = _client_settings(f"http://{local}:{prefect_port}", f"http://{local}:{mlflow_port}", own_mlflow)
    home = os.environ.get("PREFECT_HOME") or str(runs / ".prefect")
    if "PREFECT_API_DATABASE_CONNECTION_URL" not in os.environ:
        os.environ.setdefault("PREFECT_SERVER_DATABASE_CONNECTION_URL", prefect_database(Path(home)))
    os.environ |= clients | {
        SERVER: clients[CLIENT],
        HOSTS: ",".join([host, socket.gethostname(), socket.getfqdn(), *(name or [])]),
        "PREFECT_HOME": home,
        "PREFECT_UI_URL": f"{ui}:{prefect_port}",
        "MLFLOW_BACKEND_STORE_URI": store,  # no option: everybody can read command lines
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "PREFECT_SERVER_UI_API_URL": "/api",  # whatever name the browser uses
        ENDS_WITH_WORKER: "1",
        "PREFECT_WORKER_QUERY_SECONDS": os.environ.get("PREFECT_WORKER_QUERY_SECONDS") or "2",
    }
    folder = runs / ".serve"
    with exclusive(folder):
        folder.mkdir(exist_ok=True)
        group, exports = ProcessGroup(folder), folder / "env"
        try:
            _say(f"starting; a new database takes half a minute (logs: {group.folder})")
            _start(group, host, prefect_port, mlflow_port if own_mlflow else None, limit)
            lines = [f"export {name}={shlex.quote(value)}\n" for name, value in clients.items()]
            write_text(exports, "".join(lines), private=True)
            _say(f"Prefect  {ui}:{prefect_port}")
            _say(f"MLflow   {f'{ui}:{mlflow_port}' if own_mlflow else without_password(store)}")
            _say(f"login    {clients[CLIENT] if new_login else f'the value of {CLIENT}'}")
            _say(f"in another terminal: . {exports} && prefect deployment run curriculum/tiny --watch")
            _say("Ctrl-C ends it all")
            while True:
                group.check()
                time.sleep(0.5)
        finally:
            exports.unlink(missing_ok=True)
            _end_runs()
            group.stop()


def mlflow_store(own: str) -> str:
    """Return the store of MLflow. An address `own`, left by an earlier session, is this server itself."""
    if os.environ.get("MLFLOW_TRACKING_URI") == own:
        del os.environ["MLFLOW_TRACKING_URI"]
    return Settings().tracking_uri


def prefect_database(home: Path) -> str:
    """Make Prefect's home; return the address of its SQLite database, which asks for one connection by
    `:memory:`: with several, a transaction that has read fails once another one has written."""
    home.mkdir(parents=True, exist_ok=True)
    uri = (home / "prefect.db").absolute().as_uri()
    return f"sqlite+aiosqlite:///{quote(uri)}?uri=true&connections=:memory:"  # SQLAlchemy unquotes it once


def _say(text: str) -> None:
    say(f"{time.strftime('%H:%M:%S')}  {text}")


def _client_settings(prefect: str, mlflow: str, own_mlflow: bool) -> dict[str, str]:
    """Return the environment variables that the worker and other terminals need."""
    login, local = choose_login(), prefect.removeprefix("http://").rpartition(":")[0]
    settings = {
        "ENVWRIGHT_RUNS": str(Settings().runs.resolve()),
        "PREFECT_API_URL": f"{prefect}/api",
        CLIENT: login,
        "MLFLOW_TRACKING_URI": mlflow if own_mlflow else Settings().tracking_uri,
        "NO_PROXY": ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1", "localhost", local])),
    }
    if own_mlflow:
        user, _, password = login.partition(":")
        settings |= {"MLFLOW_TRACKING_USERNAME": user, "MLFLOW_TRACKING_PASSWORD": password}
    return settings


def _start(group: ProcessGroup, host: str, prefect_port: int, mlflow_port: int | None, limit: int) -> None:
    """Start both servers, the worker and the reaper; no MLflow server without a port."""
    from infra.serving.pools import POOL, deploy
    from infra.serving.reaper import watch

    listen = ("--host", host, "--port")
    app = ("--factory", "infra.serving.access:prefect_app")
    group.start("prefect", "uvicorn", *app, *listen, str(prefect_port))
    if mlflow_port:
        # Runs without a server write to the same folder, so that both see the same artifacts.
        folder = (Settings().runs.resolve() / "mlartifacts").as_uri()
        artifacts = ("--no-serve-artifacts", "--default-artifact-root", folder)
        app = ("server", "--app-name", "envwright", "--workers", "1")
        group.start("mlflow", "mlflow", *app, *listen, str(mlflow_port), *artifacts)
        group.wait_for(f"{os.environ['MLFLOW_TRACKING_URI']}/health")
    group.wait_for(f"{os.environ['PREFECT_API_URL']}/health")
    deploy(limit)
    group.start("worker", "prefect", "worker", "start", "--pool", POOL, "--type", "process")
    threading.Thread(target=watch, daemon=True).start()


def _end_runs() -> None:
    """Give the runs of the worker three seconds to tell the server that they end."""
    from infra.serving.reaper import living

    server = os.environ["PREFECT_API_URL"]
    runs = [run for run in living().values() if run.info["environ"].get("PREFECT_API_URL") == server]
    for run in runs:
        with suppress(psutil.NoSuchProcess):
            run.terminate()
    psutil.wait_procs(runs, timeout=3)


def _check_port(host: str, port: int) -> None:
    """ConfigError if no server can listen there."""
    try:
        *kind, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(*kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        remedy = "give others with --host, --prefect-port or --mlflow-port"
        raise ConfigError(f"--host {host}, port {port}: {error.strerror}; {remedy}") from None
