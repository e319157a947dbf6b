"""The flow that tells Prefect which runs are dead. `prefect.yaml` schedules it."""

from flows.environment import prepare

prepare()

import logging
from datetime import UTC, datetime

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import get_client
from pydantic import Field

from envgen.frozen import Frozen
from infra.analysis.stage_view import quiet
from infra.serving.reaping import reap

log = logging.getLogger("envwright")


class JanitorOptions(Frozen):
    """When a run counts as dead, and what becomes of it."""

    max_silence: int = Field(
        default=120,
        ge=120,
        title="Longest silence",
        description=(
            "Seconds without a heartbeat after which a running run is dead: at least four heartbeats of 30 s,"
            " because a server restarts."
        ),
    )
    max_start: int = Field(
        default=900,
        ge=120,
        title="Longest start",
        description=(
            "Seconds a run may stay pending, from the worker that takes it to its first line: a first import"
            " from a slow disk takes minutes."
        ),
    )
    resume: int = Field(
        default=0,
        ge=0,
        title="Resume",
        description=(
            "Crashes after which a run is still scheduled again by itself; 0 leaves that to a person."
        ),
    )


DEFAULTS = JanitorOptions()


@flow(name="janitor")
def janitor(options: JanitorOptions = DEFAULTS) -> list[str]:
    """Mark runs whose process is gone as crashed, so that they can be retried. Suspended, paused and living
    runs, and runs of others, are left alone.

    Args:
        options: When a run counts as dead, and what becomes of it.
    """
    with get_client(sync_client=True) as client:
        done = reap(
            client,
            max_silence=options.max_silence,
            max_start=options.max_start,
            resume=options.resume,
            now=datetime.now(UTC),
        )
    for line in done:
        log.warning("%s", line)
    if done:
        create_markdown_artifact(
            "\n".join(f"- {quiet(line)}" for line in done), key="janitor", description="What the janitor did"
        )
    else:
        log.info("nothing to do")
    return done
