"""Who may use the servers of `envwright serve`: one login, and both as ASGI apps with checks."""

import base64
import hmac
import os
import secrets
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote, urlsplit

from envgen.errors import ConfigError

SERVER, CLIENT = "PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING"
"""Environment variables with the login, `user:password`: of both servers, and of Prefect's clients."""
HOSTS = "ENVWRIGHT_HOSTS"
"""Environment variable with host names, comma-separated, that requests may name besides localhost."""


def choose_login() -> str:
    """Return the login that the environment sets, or a random one of 192 bits; ConfigError for a bad one."""
    values = {value for name in (SERVER, CLIENT) if (value := os.environ.get(name))}
    login = values.pop() if values else f"envwright:{secrets.token_urlsafe(24)}"
    user, _, password = login.partition(":")
    if values or not (user and password and all("!" <= character <= "~" for character in login)):
        expected = "expected one USER:PASSWORD in ASCII without spaces (values not shown)"
        raise ConfigError(f"{SERVER}, {CLIENT}: {expected}; correct or unset them")
    return login


def prefect_app() -> Callable:
    """Prefect's server and UI, for `uvicorn --factory`. Prefect checks the login itself."""
    from prefect.server.api.server import create_app

    return _checked(create_app(final=True))


def mlflow_app() -> Callable:
    """MLflow's server and UI with a login, for `mlflow server --app-name envwright`."""
    # Checked here instead: MLflow refuses its own pages under another name than localhost.
    os.environ |= {"MLFLOW_SERVER_ALLOWED_HOSTS": "*", "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": "*"}
    from mlflow.server.fastapi_app import app

    return _checked(app, "Basic " + base64.b64encode(os.environ[SERVER].encode()).decode())


def _checked(app: Callable, login: str = "") -> Callable:
    """Let only requests reach an app that name this server, come from its own pages and carry the login."""
    names = {"localhost", *os.environ.get(HOSTS, "").lower().split(",")} - {""}

    def refusal(path: str, headers: dict[str, str]) -> tuple[int, str] | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not _allowed(host, names):
            return 400, f"{host!r} is not a name of this server"
        if origin is not None and urlsplit(origin).netloc != host:
            return 403, "pages of other sites may not use this server"
        if "/mlflow/assistant" in unquote(path).lower():
            return 403, "the assistant is off: its tools run commands on this machine"
        sent = headers.get("authorization", "").encode()
        if login and path != "/health" and not hmac.compare_digest(sent, login.encode()):
            return 401, "log in with the user and password of envwright serve"
        return None

    async def checked(scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", ())
        }
        if not (problem := refusal(scope["path"], headers) if "path" in scope else None):
            return await app(scope, receive, lambda message: send(_private(message)))
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008})
        asks = [(b"www-authenticate", b'Basic realm="envwright"')] if problem[0] == 401 else []
        await send({"type": "http.response.start", "status": problem[0], "headers": asks})
        await send({"type": "http.response.body", "body": problem[1].encode()})

    return checked


def _private(message: dict[str, Any]) -> dict[str, Any]:
    """Let pages talk to this server only: Prefect's login page reports its use elsewhere."""
    policy = (b"content-security-policy", b"connect-src 'self' data: blob:")
    headers = {"headers": [*message.get("headers", ()), policy]}
    return message | headers if message["type"] == "http.response.start" else message


def _allowed(host: str, names: set[str]) -> bool:
    """Whether a Host header is one of these names or an address: DNS rebinding needs another name."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name in names or bool(ip_address(name))
    except ValueError:
        return False
