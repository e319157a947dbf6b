"""The flow run that is suspended for a decision: what its state says, and how it wakes after the decision was
stored in a shell."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.states import Scheduled

WAITING = ".waiting.json"
"""In a run directory: which flow run is suspended for a decision."""
SETTLE_SECONDS = 10.0
"""A suspended run is left alone for so long."""


def asked_before(directory: Path, waiting: dict[str, Any]) -> bool:
    """Whether the run was suspended already for what it waits for."""
    try:
        return json.loads((directory / WAITING).read_text()) == waiting
    except (FileNotFoundError, ValueError):
        return False


def tell_what_it_waits_for(flow_run_id: UUID, message: str) -> None:
    """Give the state of a suspended flow run a message: Prefect takes none when it suspends one."""
    with get_client(sync_client=True) as client:
        suspended = client.read_flow_run(flow_run_id).state
        if suspended and suspended.is_paused():  # somebody may have answered since
            told = suspended.model_copy(update={"message": message})
            client.set_flow_run_state(flow_run_id, told, force=True)


def resume_suspended(directory: Path) -> str:
    """Schedule the suspended flow run of a run directory again; it finds the stored decision. What was done
    in words, empty if there is none."""
    try:
        flow_run_id = UUID(json.loads((directory / WAITING).read_text())["flow_run"])
    except FileNotFoundError:
        return ""
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(flow_run_id)
        if run.state is None or run.state.is_final():
            return ""
        if not run.state.is_paused():
            return f"flow run {run.name} is {(run.state.name or '').lower()} already"
        # A worker cannot start the run while the process that suspended it is still ending.
        time.sleep(max(0.0, SETTLE_SECONDS - (datetime.now(UTC) - run.state.timestamp).total_seconds()))
        # Not resume_flow_run, which wants the form filled in: the decision is in the run directory, where the
        # flow looks first.
        client.set_flow_run_state(
            flow_run_id, Scheduled(name="Resuming", message="decided in a shell"), force=True
        )
    return f"flow run {run.name} goes on"
