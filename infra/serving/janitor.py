"""What tells a Prefect server, again and again, which runs are dead: a process of its own, because a server
whose scheduler hangs starts no flow that could do it."""

import logging
import time
from datetime import UTC, datetime
from typing import NoReturn

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client

from infra.serving.reaping import reap

log = logging.getLogger("envwright")


def keep_watch(*, every: float, max_silence: float, max_start: float, resume: int) -> NoReturn:
    """Call `clean` for ever, every so many seconds, also after an error, as of a server that does not
    answer."""
    answered = True
    while True:
        try:
            clean(max_silence=max_silence, max_start=max_start, resume=resume)
            if not answered:
                log.info("the Prefect server answers again")
            answered = True
        except httpx.HTTPError as error:
            if answered:
                log.warning(
                    "the Prefect server does not answer (%s); it is asked every %.0f s",
                    str(error).partition("\n")[0] or type(error).__name__,
                    every,
                )
            answered = False
        except Exception as error:  # of whatever one look stumbled over, the next one may find nothing
            log.warning("a look failed (%s: %s); the next is in %.0f s", type(error).__name__, error, every)
        time.sleep(every)


def clean(*, max_silence: float, max_start: float, resume: int) -> None:
    """Mark the dead runs on the server that is configured, once, and log each; arguments as of `reap`."""
    with get_client(sync_client=True) as client:
        assert isinstance(client, SyncPrefectClient)
        for line in reap(
            client, max_silence=max_silence, max_start=max_start, resume=resume, now=datetime.now(UTC)
        ):
            log.warning("%s", line)
