"""What a person does in the Prefect UI and sees in the MLflow UI: for tests and for pictures of the docs."""

from mlflow import MlflowClient
from playwright.sync_api import Locator, Page

from support.envwright_serve import Served


def log_in(served: Served, page: Page) -> None:
    """Type the login into the Prefect UI's login page."""
    page.goto(f"http://127.0.0.1:{served.prefect}")
    password = page.locator("input[type=password]")
    password.fill(served.auth_string)
    page.get_by_role("button", name="Login").click()
    password.wait_for(state="hidden")


def open_menu(served: Served, page: Page, name: str) -> Locator:
    """The menu of a run's page."""
    page.goto(f"http://127.0.0.1:{served.prefect}/v2/runs/flow-run/{served.flow_run(name)['id']}")
    page.get_by_role("button", name="Open menu").click()
    return page.get_by_role("menu")


def open_approval(served: Served, page: Page, name: str) -> Locator:
    """The form of a suspended run."""
    served.reach(name, "Suspended")
    open_menu(served, page, name).get_by_role("menuitem", name="Resume").click()
    form = page.get_by_role("dialog")
    form.get_by_text("Your name").wait_for()
    return form


def experiment_of(served: Served, name: str) -> str:
    """The id of the MLflow experiment of a preset or comparison."""
    client = MlflowClient(f"sqlite:///{served.folder}/runs/mlflow.db")
    return client.get_experiment_by_name(f"envwright/{name}").experiment_id


def open_in_mlflow(served: Served, page: Page, address: str) -> None:
    """A page of the MLflow UI, loaded anew: it does not follow a change of its address alone."""
    page.goto("about:blank")
    page.goto(f"http://127.0.0.1:{served.mlflow}/{address}")
