"""Settings of Prefect for commands, and the temporary server of a run where no other one is configured."""

import atexit
import os
import sys
import time

from envgen.errors import ConfigError
from envgen.processes import ended, free_port
from infra.config.settings import without_password
from policy.child import start_child

_DEFAULTS = {
    "PREFECT_LOGGING_EXTRA_LOGGERS": "envwright",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}
ENDS_WITH_WORKER = "ENVWRIGHT_ENDS_WITH_WORKER"
"""Variable of runs that end with the process that started them, as the worker of `envwright serve`."""


def prepare() -> None:
    """Fill in settings that the user left open; call before anything imports Prefect."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)


def start_server() -> None:
    """Start a temporary server unless one is configured, and wait for it; ConfigError if it ends, or if the
    configured one does not answer. Prefect's own one gives up after a fixed time, and Ctrl-C ends it too."""
    from httpx import HTTPError, get
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_ALLOW_EPHEMERAL_MODE

    if address := PREFECT_API_URL.value():
        try:
            get(f"{address}/health", timeout=30)
        except HTTPError as error:
            problem = f"{without_password(address)} does not answer ({error}); start that server, or unset it"
            remedy = "`prefect config unset PREFECT_API_URL`"
            raise ConfigError(f"PREFECT_API_URL: {problem} ({remedy}) for a temporary one") from None
        return
    if not PREFECT_SERVER_ALLOW_EPHEMERAL_MODE.value():
        problem = "is not set, and PREFECT_SERVER_ALLOW_EPHEMERAL_MODE forbids a temporary server"
        raise ConfigError(f"PREFECT_API_URL: {problem}; set one of them")
    from prefect.server.api.server import SubprocessASGIServer  # takes seconds to import

    server = SubprocessASGIServer()  # one object for the whole process: Prefect's clients use it once it runs
    server.port = free_port()
    app = ["--factory", "prefect.server.api.server:create_app", "--host", "127.0.0.1"]
    settings = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    options = ["--port", str(server.port), "--log-level", "error", "--lifespan", "on"]
    server.server_process = start_child("uvicorn", [*app, *options], settings, stdout=sys.stderr)
    server.running = True
    atexit.register(server.stop)
    while (code := server.server_process.poll()) is None:
        try:
            if get(f"{server.api_url}/health", timeout=5, trust_env=False).is_success:
                return
        except HTTPError:
            time.sleep(0.1)
    server.running = False
    problem = f"Prefect's temporary server {ended(code)}, for the reason above"
    raise ConfigError(f"{problem}; correct it and run the same command")
