"""`envwright serve`: Prefect's server, MLflow's server and a worker as one process group."""

import os
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from envgen.errors import ChildError, ConfigError
from envgen.files import write_text
from infra.config.settings import Settings, without_password
from infra.runs.lock import exclusive
from infra.serving.access import CLIENT, HOSTS, SERVER, choose_login
from infra.serving.group import ProcessGroup

PROJECT = Path(__file__).resolve().parents[1]
POOL = "local"


def serve(
    host: str, prefect: int, mlflow: int, names: list[str], limit: int, say: Callable[[str], None]
) -> None:
    """Start everything, wait until it answers, and watch it until a signal comes or a process ends.

    ChildError if a process ends, ConfigError if a port is taken or the runs are served already.
    """
    runs, store, drawn = Settings().runs.resolve(), Settings().tracking_uri, not os.environ.get(CLIENT)
    own_mlflow, everywhere = not store.startswith(("http://", "https://")), host in {"0.0.0.0", "::"}
    for port in [prefect, mlflow] if own_mlflow else [prefect]:
        _check_port(host, port)
    local = "127.0.0.1" if everywhere else f"[{host}]" if ":" in host else host
    address = socket.gethostname() if everywhere else local
    login = choose_login()
    clients = {  # what the worker and other terminals need
        "ENVWRIGHT_RUNS": str(runs),
        "PREFECT_API_URL": f"http://{local}:{prefect}/api",
        CLIENT: login,
        "MLFLOW_TRACKING_URI": f"http://{local}:{mlflow}" if own_mlflow else store,
        "NO_PROXY": ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1", "localhost", local])),
    }
    if own_mlflow:
        user, _, password = login.partition(":")
        clients |= {"MLFLOW_TRACKING_USERNAME": user, "MLFLOW_TRACKING_PASSWORD": password}
    os.environ |= clients | {
        SERVER: login,
        HOSTS: ",".join([host, socket.gethostname(), socket.getfqdn(), *names]),
        "PREFECT_HOME": os.environ.get("PREFECT_HOME") or str(runs / ".prefect"),
        "PREFECT_UI_URL": f"http://{address}:{prefect}",
        "MLFLOW_BACKEND_STORE_URI": store,  # no option: everybody can read command lines
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "PREFECT_SERVER_UI_API_URL": "/api",  # whatever name the browser uses
        "PREFECT_WORKER_QUERY_SECONDS": os.environ.get("PREFECT_WORKER_QUERY_SECONDS") or "2",
    }
    with exclusive(runs / ".serve"):
        (runs / ".serve").mkdir(exist_ok=True)
        group, exports = ProcessGroup(runs / ".serve"), runs / ".serve" / "env"
        try:
            say(f"starting; a new database takes half a minute (logs: {group.folder})")
            listen = ("--host", host, "--port")
            app = ("--factory", "infra.serving.access:prefect_app")
            group.start("prefect", "uvicorn", *app, *listen, str(prefect))
            if own_mlflow:
                # Runs without a server write to the same folder, so that both see the same artifacts.
                artifacts = (
                    "--no-serve-artifacts",
                    "--default-artifact-root",
                    (runs / "mlartifacts").as_uri(),
                )
                app = ("server", "--app-name", "envwright", "--workers", "1")
                group.start("mlflow", "mlflow", *app, *listen, str(mlflow), *artifacts)
                group.wait_for(f"{clients['MLFLOW_TRACKING_URI']}/health")
            group.wait_for(f"{clients['PREFECT_API_URL']}/health")
            _deploy(limit)
            group.start("worker", "prefect", "worker", "start", "--pool", POOL, "--type", "process")
            lines = [f"export {name}={shlex.quote(value)}\n" for name, value in clients.items()]
            write_text(exports, "".join(lines), private=True)
            say(f"Prefect  http://{address}:{prefect}")
            say(f"MLflow   {f'http://{address}:{mlflow}' if own_mlflow else without_password(store)}")
            say(f"login    {login if drawn else f'the value of {CLIENT}'}")
            say(f"in another terminal: . {exports} && prefect deployment run curriculum/tiny --watch")
            say("Ctrl-C ends it all")
            _watch(group)
        finally:
            exports.unlink(missing_ok=True)
            _end_runs()
            group.stop()


def _deploy(limit: int) -> None:
    """Make or update the work pool and the deployments of `prefect.yaml`."""
    from httpx import HTTPStatusError
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectAlreadyExists

    with get_client(sync_client=True) as client:
        with suppress(ObjectAlreadyExists):
            client.create_work_pool(WorkPoolCreate(name=POOL, type="process"))
        queues = f"/work_pools/{POOL}/queues"
        for queue, places in (("default", limit), ("comparisons", None)):
            with suppress(HTTPStatusError):  # it exists
                client.request("POST", queues, json={"name": queue})  # type: ignore[arg-type]
            client.request("PATCH", f"{queues}/{queue}", json={"concurrency_limit": places})  # type: ignore[arg-type]
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    options = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
    # Runs work in this folder, so that the relative path of a preset means the same in the UI.
    done = subprocess.run(command, cwd=PROJECT, env={**os.environ, "PWD": os.getcwd()}, **options)
    if done.returncode:
        raise ChildError(f"prefect deploy failed:\n{(done.stdout + done.stderr)[-2000:]}")


def _watch(group: ProcessGroup) -> None:
    """Mark dead runs until a process of the group ends, or a signal raises `Stopped`."""
    from infra.serving.reaper import watch

    threading.Thread(target=watch, daemon=True).start()
    while True:
        group.check()
        time.sleep(0.5)


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
        environment, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(environment, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise ConfigError(
            f"--host {host}, port {port}: {error.strerror}; give others with --host, --prefect-port or"
            " --mlflow-port"
        ) from None
