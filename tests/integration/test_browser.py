"""A person at the two UIs, in a real browser: start a run from its form, approve an edited proposal, find the
artifacts, compare in MLflow.

Screenshots go to the folder that ENVWRIGHT_SCREENSHOTS names, or to that of the test.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient
from playwright.sync_api import Locator, Page, sync_playwright
from support.envwright_serve import Served, serving, wait_until
from support.prefect_servers import ask, flow_runs

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAME = "from-the-form"
SLOW = 120_000
"""Milliseconds: a browser that draws in software takes many seconds for its first page."""


@pytest.fixture
def page() -> Iterator[Page]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        (pytest.fail if os.environ.get("ENVWRIGHT_BROWSER_REQUIRED") else pytest.skip)(
            "no Chromium is installed (apt-get install chromium)"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1500, "height": 1050})
        page.set_default_timeout(SLOW)
        yield page
        browser.close()


@pytest.fixture
def shoot(page: Page, tmp_path: Path) -> Callable[[str], None]:
    """Take a screenshot of what the page shows, and see that it shows something."""
    folder = Path(os.environ.get("ENVWRIGHT_SCREENSHOTS", tmp_path / "screenshots"))

    def take(name: str) -> None:
        page.wait_for_timeout(2_500)  # charts and graphs are drawn after the text
        path = folder / f"{name}.png"
        page.screenshot(path=path)
        assert path.stat().st_size > 20_000, f"{path} is empty"

    return take


def choose(form: Locator, label: str, option: str, page: Page) -> None:
    """Choose an option of a drop-down field of one of Prefect's forms."""
    field(form, label).locator(".p-select-button__control").focus()
    page.keyboard.press("ArrowDown")  # a click closes the list again: the label around it passes it on
    page.get_by_role("option", name=option, exact=True).click()


def field(form: Locator, label: str) -> Locator:
    """The innermost property of a form with this label."""
    return form.locator(".p-label").filter(has=form.page.get_by_text(label, exact=True)).last


def run_of(served: Served, name: str) -> dict:
    [found] = [run for run in flow_runs(served.api) if run["name"] == name]
    return found


def in_state(served: Served, name: str, state: str) -> Callable[[], bool]:
    def look() -> bool:
        found = [run["state"]["name"] for run in flow_runs(served.api) if run["name"] == name]
        assert not {"Failed", "Crashed"} & set(found), flow_runs(served.api)
        return found == [state]

    return look


def log_in(served: Served, page: Page) -> None:
    page.goto(f"http://127.0.0.1:{served.prefect}")
    password = page.locator("input[type=password]")
    password.fill(served.auth_string)
    page.get_by_role("button", name="Login").click()
    password.wait_for(state="hidden")


def start_from_the_form(served: Served, page: Page, shoot: Callable[[str], None]) -> None:
    page.goto(f"http://127.0.0.1:{served.prefect}/deployments")
    page.get_by_text("curriculum").first.wait_for()
    deployment = next(
        one
        for one in ask(f"{served.api}/deployments/filter")
        if one["name"] == "tiny" and one["entrypoint"].endswith(":curriculum")
    )
    page.goto(f"http://127.0.0.1:{served.prefect}/deployments/deployment/{deployment['id']}/run")
    form = page.locator("form").first
    form.get_by_text("Context variant").first.wait_for()
    choose(form, "preset", "micro", page)
    field(form, "name (Optional)").locator("textarea, input").first.fill(NAME)
    choose(form, "Approval (Optional)", "required", page)
    shoot("form")
    page.get_by_role("button", name="Submit").click()
    wait_until(lambda: any(run["deployment_id"] == deployment["id"] for run in flow_runs(served.api)), 60)
    [run] = [run for run in flow_runs(served.api) if run["deployment_id"] == deployment["id"]]
    assert run["parameters"] == {
        "preset": "micro",
        "name": NAME,
        "options": {"approval": "required"},
    }, "fields that are left empty are not sent"


def approve_an_edited_config(served: Served, page: Page, shoot: Callable[[str], None]) -> None:
    page.goto(f"http://127.0.0.1:{served.prefect}/runs/flow-run/{run_of(served, NAME)['id']}")
    page.get_by_role("button", name="Resume").click()
    form = page.locator(".p-modal")
    form.get_by_text("Config of stage 1").wait_for()
    form.get_by_text("Proposed config for stage 1").wait_for()
    page.wait_for_timeout(3_000)
    # The first field has the focus, and the words above it are scrolled away.
    form.evaluate("form => form.querySelectorAll('*').forEach(part => { part.scrollTop = 0 })")
    shoot("approval")
    choose(form, "Decision", "approve", page)
    form.locator("input[type=number]").first.fill("0.05")
    form.locator("textarea").first.fill("fewer small maps")
    form.get_by_role("button", name="Submit").click()
    form.wait_for(state="hidden")


def test_a_run_is_started_approved_and_inspected_in_the_browser(
    tmp_path: Path, page: Page, shoot: Callable[[str], None]
):
    with serving(tmp_path) as served:
        log_in(served, page)
        start_from_the_form(served, page, shoot)
        wait_until(in_state(served, NAME, "Suspended"), 400)
        approve_an_edited_config(served, page, shoot)
        wait_until(in_state(served, NAME, "Completed"), 400)
        run = tmp_path / "runs" / NAME
        decision = json.loads((run / "stage-00" / "decision.json").read_text())
        assert (decision["decision"], decision["edited"], decision["via"], decision["comment"]) == (
            "approve",
            True,
            "form",
            "fewer small maps",
        )
        assert json.loads((run / "stage-01" / "config.json").read_text()) == decision["config"]
        assert decision["config"]["sizes"]["3"]["data_ratio"] < 0.1
        see_the_artifacts(served, page, shoot)
        see_the_result(served, page, shoot)
        compare_in_mlflow(served, tmp_path, page, shoot)


def see_the_artifacts(served: Served, page: Page, shoot: Callable[[str], None]) -> None:
    stage = run_of(served, "stage 1 · checkpoint-V6")
    found = ask(
        f"{served.api}/artifacts/filter",
        {"artifacts": {"operator": "and_"}, "flow_runs": {"id": {"any_": [stage["id"]]}}},
    )
    assert {artifact["type"] for artifact in found} == {"markdown", "progress"}, found
    assert len(found) == 3
    messages = [entry["message"] for entry in ask(f"{served.api}/logs/filter", {"limit": 200})]
    assert any("step 4 of 4, reward" in message for message in messages), (
        "training tells of itself in the log of the run"
    )
    page.goto(f"http://127.0.0.1:{served.prefect}/runs/flow-run/{stage['id']}")
    page.get_by_text("Artifacts", exact=True).first.click()
    page.get_by_text(f"{NAME}-stage-1-result").wait_for()
    shoot("artifacts")
    shown = {artifact["key"].removeprefix(f"{NAME}-stage-1-"): artifact["id"] for artifact in found}
    for what, text in (
        ("result", "→"),
        ("proposal", "Proposed config for stage 2"),
        ("result", "hole collision"),
    ):
        page.goto(f"http://127.0.0.1:{served.prefect}/artifacts/artifact/{shown[what]}")
        page.get_by_text(text).first.wait_for()
        shoot(f"artifact-{what}")


def see_the_result(served: Served, page: Page, shoot: Callable[[str], None]) -> None:
    run = run_of(served, NAME)
    assert re.match(r"valid [\d.]+\s% \[.*\] before, .* after 2\sstages: ", run["state"]["message"])
    page.goto(f"http://127.0.0.1:{served.prefect}/runs/flow-run/{run['id']}")
    page.get_by_text("Completed").first.wait_for()
    shoot("run")
    mine = {"artifacts": {"operator": "and_"}, "flow_runs": {"id": {"any_": [run["id"]]}}}
    [result] = ask(f"{served.api}/artifacts/filter", mine)
    page.goto(f"http://127.0.0.1:{served.prefect}/artifacts/artifact/{result['id']}")
    page.get_by_text("2 of 2 stages are finished.").wait_for()
    picture = page.get_by_alt_text("Rates by stage")
    picture.wait_for()
    assert picture.evaluate("image => image.complete && image.naturalWidth") == 840
    shoot("result")
    address = page.get_by_role("link", name="report in MLflow").get_attribute("href")
    page.goto("about:blank")
    page.goto(address or "")
    page.frame_locator("iframe").get_by_text("Valid rate on the validation set").first.wait_for()
    shoot("report-in-mlflow")


def compare_in_mlflow(served: Served, folder: Path, page: Page, shoot: Callable[[str], None]) -> None:
    client, address = (
        MlflowClient(f"sqlite:///{folder}/runs/mlflow.db"),
        f"http://127.0.0.1:{served.mlflow}/#",
    )
    experiment = client.get_experiment_by_name("envwright")
    assert experiment is not None
    stages = client.search_runs([experiment.experiment_id], "tags.level = 'stage'", order_by=["params.stage"])
    assert [run.data.params["stage"] for run in stages] == ["0", "1"]
    runs = f"{address}/experiments/{experiment.experiment_id}/runs"
    view = f"{runs}?workflowType=machine_learning&viewStateShareKey="
    page.goto(f"{view}stages")
    page.get_by_text("stage 1 · checkpoint-V6").first.wait_for()
    shoot("mlflow-stages")
    page.goto("about:blank")
    page.goto(f"{view}curricula&compareRunsMode=CHART")
    page.get_by_text("valid").first.wait_for()
    shoot("mlflow-chart")
    ids = json.dumps([run.info.run_id for run in stages])
    page.goto("about:blank")
    page.goto(
        f'{address}/compare-runs?runs={ids}&experiments=["{experiment.experiment_id}"]&workflowType=machine_learning'
    )
    page.get_by_text("Comparing 2 Runs", exact=False).first.wait_for()
    shoot("mlflow-compare")
