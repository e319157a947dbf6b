"""Process-wide settings of Prefect, set before it is imported. What the user has set is left alone."""

import logging
import os
import socket
from urllib.parse import urlsplit

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


def _nobody_listens(server: str) -> bool:
    address = urlsplit(server)
    try:
        socket.create_connection((address.hostname or "", address.port or 80), timeout=5).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False  # it may be slow: Prefect will say
    return False
