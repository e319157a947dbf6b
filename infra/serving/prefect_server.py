"""Prefect's server behind a check of the Host header, and without failures of SQLite's locks:
`python -m infra.serving.prefect_server HOST PORT NAME...`.

It answers requests for these names only, `*` for any. Without the check a web page whose name leads to this
machine (DNS rebinding) would count for a browser as the server's own page."""

import sys
from contextlib import AbstractAsyncContextManager
from typing import Any

import uvicorn
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from prefect.server.api.server import create_app
from prefect.server.database.configurations import AioSqliteConfiguration
from prefect.server.database.dependencies import set_database_config
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, get_current_settings


class Sqlite(AioSqliteConfiguration):
    """Prefect's configuration of SQLite, whose transactions wait for each other.

    Prefect lets most of them begin as readers. One that then writes fails at once with "database is locked"
    if another one has written since, however long the busy timeout is
    (https://www.sqlite.org/isolation.html)."""

    def begin_transaction(
        self, session: Any, with_for_update: bool = False
    ) -> AbstractAsyncContextManager[Any]:
        """A transaction that may write from its first statement on."""
        return super().begin_transaction(session, with_for_update=True)


def main() -> None:
    """Entry point; ends on SIGINT and SIGTERM."""
    host, port, *names = sys.argv[1:]
    database = PREFECT_API_DATABASE_CONNECTION_URL.value()
    if str(database).startswith("sqlite"):
        set_database_config(Sqlite(connection_url=str(database)))
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
