"""Process-wide settings of Prefect, set before it is imported. What the user has set is left alone."""

import logging
import os
import socket
from urllib.parse import urlsplit

from envgen.errors import ConfigError
from infra.serving import project_file

_DEFAULTS = {
    "PREFECT_LOGGING_EXTRA_LOGGERS": "envwright",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # The first start of a server in a process can take half a minute on a slow disk.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
}


def prepare() -> None:
    """Fill in the defaults, let a run's own log lines through, and remove the `prefect.toml` that a killed
    `envwright serve` left behind."""
    logging.getLogger("envwright").setLevel(logging.INFO)
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    server = project_file.named_server()
    if server and "PREFECT_API_URL" not in os.environ and _nobody_listens(server):
        project_file.remove(server)
        logging.getLogger("envwright").warning(
            "%s named %s, where no server is any more: removed, this run does without",
            project_file.FILE,
            server,
        )


def start_server() -> None:
    """Start the server that Prefect brings along, where no other one is configured; ConfigError if it does
    not answer in time. A flow would start it too, and end in a traceback."""
    from httpx import HTTPError
    from prefect.server.api.server import SubprocessASGIServer
    from prefect.settings import (
        PREFECT_API_URL,
        PREFECT_SERVER_ALLOW_EPHEMERAL_MODE,
        PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
    )

    if PREFECT_API_URL.value() or not PREFECT_SERVER_ALLOW_EPHEMERAL_MODE.value():
        return
    server, limit = SubprocessASGIServer(), PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS
    try:
        server.start()
    except (RuntimeError, HTTPError) as error:
        process = server.server_process
        if process is None:
            what = f"cannot be started: {error}"
        elif (code := process.poll()) is not None:
            what = f"ended with exit code {code}, for the reason above; mend it and run again"
        else:
            what = (
                f"did not answer within {limit.value()} s, as on a busy machine or a slow disk; run the same"
                f" command again, with {limit.name}=600 before it; if that does not help, `prefect server"
                " start` shows why"
            )
        raise ConfigError(f"Prefect's server {what}") from error


def _nobody_listens(server: str) -> bool:
    address = urlsplit(server)
    try:
        socket.create_connection((address.hostname or "", address.port or 80), timeout=5).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False  # it may be slow: Prefect will say
    return False
