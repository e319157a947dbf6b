"""Runs on a Prefect server, put into a state and looked at, with nobody who works on them."""

import time

from support.prefect_servers import ask


def started(server: str, deployment: str, state: str, **parameters: float) -> str:
    """A new run of a deployment that the server is told to be in a state; its id."""
    run = ask(f"{server}/deployments/{deployment}/create_flow_run", {"parameters": parameters})
    told(server, run["id"], state)
    return run["id"]


def told(server: str, run: str, state: str, name: str | None = None) -> None:
    ask(
        f"{server}/flow_runs/{run}/set_state",
        {"state": {"type": state, "name": name or state.capitalize()}, "force": True},
    )


def state(server: str, run: str) -> str:
    return next(found["state"]["name"] for found in ask(f"{server}/flow_runs/filter") if found["id"] == run)


def task_state(server: str, run: str) -> str:
    return next(found["state"]["type"] for found in ask(f"{server}/task_runs/filter") if found["id"] == run)


def below(server: str, root: str, *tags: str) -> tuple[str, str, str]:
    """What runs below a run: a task, the subflow that it stands for, and a task of that."""
    task = ask(
        f"{server}/task_runs/",
        {"flow_run_id": root, "task_key": "stage", "dynamic_key": "0", "state": {"type": "RUNNING"}},
    )["id"]
    [flow] = {found["flow_id"] for found in ask(f"{server}/flow_runs/filter") if found["id"] == root}
    child = ask(
        f"{server}/flow_runs/",
        {"flow_id": flow, "parent_task_run_id": task, "tags": tags, "state": {"type": "RUNNING"}},
    )["id"]
    plain = ask(
        f"{server}/task_runs/",
        {"flow_run_id": child, "task_key": "train", "dynamic_key": "0", "state": {"type": "RUNNING"}},
    )["id"]
    return task, child, plain


def eventually(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.3)
