"""What a person does in the Prefect UI and sees in the MLflow UI: for tests and for pictures of the docs."""

from collections.abc import Callable
from typing import Any

from mlflow import MlflowClient
from playwright.sync_api import Locator, Page

from support.envwright_serve import Served, wait_until
from support.prefect_servers import ask, flow_runs


def log_in(served: Served, page: Page) -> None:
    """Type the auth string into the Prefect UI's login page."""
    page.goto(f"http://127.0.0.1:{served.prefect}")
    password = page.locator("input[type=password]")
    password.fill(served.auth_string)
    page.get_by_role("button", name="Login").click()
    password.wait_for(state="hidden")


def field(form: Locator, label: str) -> Locator:
    """The innermost property of a form with this label."""
    return form.locator(".p-label").filter(has=form.page.get_by_text(label, exact=True)).last


def choose(form: Locator, label: str, option: str) -> None:
    """Choose an option of a drop-down field of one of Prefect's forms."""
    field(form, label).locator(".p-select-button__control").focus()
    form.page.keyboard.press("ArrowDown")  # a click closes the list again: the label around it passes it on
    form.page.get_by_role("option", name=option, exact=True).click()


def deployment_of(served: Served, name: str, flow: str = "curriculum") -> str:
    """The id of a deployment."""
    return next(
        one["id"]
        for one in ask(f"{served.api}/deployments/filter")
        if one["name"] == name and one["entrypoint"].endswith(f":{flow}")
    )


def run_of(served: Served, name: str) -> dict[str, Any]:
    """The flow run of this name."""
    [found] = [run for run in flow_runs(served.api) if run["name"] == name]
    return found


def in_state(served: Served, name: str, state: str) -> Callable[[], bool]:
    """Whether the flow run of this name is in a state; AssertionError if it failed."""

    def look() -> bool:
        found = [run["state"]["name"] for run in flow_runs(served.api) if run["name"] == name]
        assert not {"Failed", "Crashed"} & set(found), flow_runs(served.api)
        return found == [state]

    return look


def artifacts_of(served: Served, flow_run: str) -> list[dict[str, Any]]:
    """The artifacts of a flow run, not those of its children."""
    mine = {"artifacts": {"operator": "and_"}, "flow_runs": {"id": {"any_": [flow_run]}}}
    return ask(f"{served.api}/artifacts/filter", mine)


def open_approval(served: Served, page: Page, name: str) -> Locator:
    """The form of a suspended run, scrolled to its top."""
    wait_until(in_state(served, name, "Suspended"), 600)
    page.goto(f"http://127.0.0.1:{served.prefect}/runs/flow-run/{run_of(served, name)['id']}")
    page.get_by_role("button", name="Resume").click()
    form = page.locator(".p-modal")
    form.get_by_text("Proposed config for stage 1").wait_for()
    page.wait_for_timeout(3_000)
    # The first field has the focus, and the words above it are scrolled away.
    form.evaluate("form => form.querySelectorAll('*').forEach(part => { part.scrollTop = 0 })")
    return form


def experiment_of(served: Served, name: str) -> str:
    """The id of the MLflow experiment of a preset or comparison."""
    found = MlflowClient(f"sqlite:///{served.folder}/runs/mlflow.db").get_experiment_by_name(
        f"envwright/{name}"
    )
    assert found is not None
    return found.experiment_id


def open_in_mlflow(served: Served, page: Page, address: str) -> None:
    """A page of the MLflow UI, loaded anew: it does not follow a change of its address alone."""
    page.goto("about:blank")
    page.goto(f"http://127.0.0.1:{served.mlflow}/{address}")
