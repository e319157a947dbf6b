"""Prefect's server behind a check of the Host header, and without failures and deadlocks on SQLite:
`python -m infra.serving.prefect_server HOST PORT NAME...`.

It answers requests for these names only, `*` for any. Without the check a web page whose name leads to this
machine (DNS rebinding) would count for a browser as the server's own page."""

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

import uvicorn
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from prefect.server.api.server import create_app
from prefect.server.database.configurations import AioSqliteConfiguration
from prefect.server.database.dependencies import set_database_config
from prefect.server.events.models import automations
from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, get_current_settings
from prefect.utilities.asyncutils import create_task, run_coro_as_sync


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


def _update(change: Coroutine[Any, Any, None]) -> None:
    """Bring the server's copy of an automation up to date, after the event loop's present work if there is
    one.

    On SQLite Prefect waits for this on the thread of the event loop. A coroutine of that loop that holds the
    lock of the automations can then never release it, and the server answers nothing any more
    (https://github.com/PrefectHQ/prefect/issues/23055; Prefect 3.9.1 has the same change)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        run_coro_as_sync(change)
    else:
        create_task(change)


def update_automations_without_deadlock() -> None:
    """Let this process's Prefect server make and change automations while others are looked at."""
    automations.run_coro_as_sync = _update


def main() -> None:
    """Entry point; ends on SIGINT and SIGTERM."""
    host, port, *names = sys.argv[1:]
    database = PREFECT_API_DATABASE_CONNECTION_URL.value()
    if str(database).startswith("sqlite"):
        set_database_config(Sqlite(connection_url=str(database)))
        update_automations_without_deadlock()
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
