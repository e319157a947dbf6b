"""Prefect's server behind a check of the Host header: `python -m infra.serving.prefect_server HOST PORT
NAME...`.

It answers requests for these names only, `*` for any. Without the check a web page whose name leads to this
machine (DNS rebinding) would count for a browser as the server's own page."""

import sys

import uvicorn
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from prefect.server.api.server import create_app
from prefect.settings import get_current_settings


def main() -> None:
    """Entry point; ends on SIGINT and SIGTERM."""
    host, port, *names = sys.argv[1:]
    app = create_app(final=True)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    server = get_current_settings().server
    # The options that `prefect server start` gives.
    uvicorn.run(
        app,
        host=host,
        port=int(port),
        timeout_keep_alive=server.api.keepalive_timeout,
        ws_ping_interval=server.api.websocket_ping_interval,
        ws_ping_timeout=server.api.websocket_ping_timeout,
        log_level=server.logging_level.lower(),
    )


if __name__ == "__main__":
    main()
