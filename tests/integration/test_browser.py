"""A person at the two UIs, in a real browser: start a run from its form, approve an edited proposal, find the
artifacts, compare in MLflow.

Screenshots go to the folder that ENVWRIGHT_SCREENSHOTS names, or to that of the test.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient
from playwright.sync_api import Page
from support.browser import SLOW, browser, new_page
from support.envwright_serve import Served, serving, wait_until
from support.prefect_servers import ask, flow_runs
from support.two_uis import (
    artifacts_of,
    choose,
    deployment_of,
    experiment_of,
    field,
    in_state,
    log_in,
    open_approval,
    open_in_mlflow,
    run_of,
)

from infra.lineage.views import view_address

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(2400)]
NAME = "from-the-form"


def screenshots(folder: Path) -> Path:
    """Where the screenshots of a test go whose folder this is."""
    return Path(os.environ.get("ENVWRIGHT_SCREENSHOTS", folder / "screenshots"))


@pytest.fixture
def page() -> Iterator[Page]:
    with browser() as opened:
        yield new_page(opened, 1500, 1050)


@pytest.fixture
def shoot(page: Page, tmp_path: Path) -> Callable[[str], None]:
    """Take a screenshot of what the page shows, and see that it shows something."""
    folder = screenshots(tmp_path)

    def take(name: str) -> None:
        page.wait_for_timeout(2_500)  # charts and graphs are drawn after the text
        path = folder / f"{name}.png"
        page.screenshot(path=path)
        assert path.stat().st_size > 20_000, f"{path} is empty"

    return take


def start_from_the_form(served: Served, page: Page, shoot: Callable[[str], None]) -> None:
    page.goto(f"http://127.0.0.1:{served.prefect}/deployments")
    page.get_by_text("curriculum").first.wait_for()
    deployment = deployment_of(served, "tiny")
    page.goto(f"http://127.0.0.1:{served.prefect}/deployments/deployment/{deployment}/run")
    form = page.locator("form").first
    form.get_by_text("Context variant").first.wait_for()
    choose(form, "preset", "micro")
    field(form, "name (Optional)").locator("textarea, input").first.fill(NAME)
    choose(form, "Approval (Optional)", "required")
    shoot("form")
    page.get_by_role("button", name="Submit").click()
    wait_until(lambda: any(run["deployment_id"] == deployment for run in flow_runs(served.api)), 60)
    [run] = [run for run in flow_runs(served.api) if run["deployment_id"] == deployment]
    assert run["parameters"] == {
        "preset": "micro",
        "name": NAME,
        "options": {"approval": "required"},
        "comparison": None,
    }, "fields that are left empty are not sent"


def approve_an_edited_config(served: Served, page: Page, shoot: Callable[[str], None]) -> None:
    waits = "waits for you to approve, edit or reject the config proposed for stage 1"
    wait_until(lambda: (run_of(served, NAME)["state"]["message"] or "").startswith(waits))
    page.goto(f"http://127.0.0.1:{served.prefect}/runs/flow-run/{run_of(served, NAME)['id']}")
    page.get_by_role("button", name="Resume").wait_for()
    shoot("waiting")
    form = open_approval(served, page, NAME)
    form.get_by_text("Config of stage 1").wait_for()
    shoot("approval")
    choose(form, "Decision", "approve")
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
        wait_until(in_state(served, NAME, "Suspended"), 900)
        approve_an_edited_config(served, page, shoot)
        wait_until(in_state(served, NAME, "Completed"), 900)
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
        see_the_artifacts(served, run, page, shoot)
        see_the_result(served, page, shoot)
        see_the_run_in_mlflow(served, page, shoot)


def see_the_artifacts(served: Served, run: Path, page: Page, shoot: Callable[[str], None]) -> None:
    stage = run_of(served, "stage 1 · checkpoint-V6")
    found = artifacts_of(served, stage["id"])
    assert {artifact["type"] for artifact in found} == {"markdown", "progress"}, found
    assert len(found) == 3
    messages = [entry["message"] for entry in ask(f"{served.api}/logs/filter", {"limit": 200})]
    assert any("step 4 of 4, reward" in message for message in messages), (
        "training tells of itself in the log of the run"
    )
    page.goto(f"http://127.0.0.1:{served.prefect}/runs/flow-run/{stage['id']}")
    page.get_by_text("Artifacts", exact=True).first.click()
    page.get_by_text(f"{NAME}-stage-1-result").wait_for()
    shoot("stage")
    shown = {artifact["key"].removeprefix(f"{NAME}-stage-1-"): artifact["id"] for artifact in found}
    strata = json.loads((run / "stage-01" / "breakdown.json").read_text())["strata"].values()
    failures = sorted({name for counts in strata for name, number in counts["failures"].items() if number})
    assert failures, "a policy that fails nowhere shows no failure"
    for what, text in (
        ("result", "→"),
        ("proposal", "Proposed config for stage 2"),
        *(("result", name.replace("_", " ")) for name in failures),
    ):
        page.goto(f"http://127.0.0.1:{served.prefect}/artifacts/artifact/{shown[what]}")
        page.get_by_text(text).first.wait_for()
        nothing_is_cut(page)
        shoot(f"artifact-{what}")


def nothing_is_cut(page: Page) -> None:
    """Nothing of an artifact's text is wider than its place, unless it scrolls there; what surrounds it is
    Prefect's."""
    text = page.locator(".p-markdown-renderer, .markdown-renderer").first
    wide = text.evaluate("""text => [...text.querySelectorAll('*')]
        .filter(one => one.getBoundingClientRect().right > text.getBoundingClientRect().right + 1)
        .filter(one => {
            for (let up = one; up !== text.parentElement; up = up.parentElement)
                if (['auto', 'scroll'].includes(getComputedStyle(up).overflowX)) return false;
            return true })
        .map(one => one.textContent)""")
    assert wide == []


def see_the_result(served: Served, page: Page, shoot: Callable[[str], None]) -> None:
    run = run_of(served, NAME)
    assert re.match(r"valid [\d.]+\s% \[.*\] before, .* after 2\sstages: ", run["state"]["message"])
    page.goto(f"http://127.0.0.1:{served.prefect}/runs/flow-run/{run['id']}")
    page.get_by_text("Completed").first.wait_for()
    shoot("curriculum")
    [result] = artifacts_of(served, run["id"])
    page.goto(f"http://127.0.0.1:{served.prefect}/artifacts/artifact/{result['id']}")
    page.get_by_text("2 of 2 stages are finished.").wait_for()
    picture = page.get_by_alt_text("Rates by stage")
    picture.wait_for()
    assert picture.evaluate("image => image.complete && image.naturalWidth") == 840
    nothing_is_cut(page)
    shoot("result")
    address = page.get_by_role("link", name="report in MLflow").get_attribute("href")
    page.goto("about:blank")
    page.goto(address or "")
    page.frame_locator("iframe").get_by_text("Valid rate on the validation set").first.wait_for()
    shoot("report-in-mlflow")


def see_the_run_in_mlflow(served: Served, page: Page, shoot: Callable[[str], None]) -> None:
    experiment = experiment_of(served, "micro")
    client = MlflowClient(f"sqlite:///{served.folder}/runs/mlflow.db")
    stages = client.search_runs([experiment], "tags.level = 'stage'", order_by=["params.stage"])
    assert [run.data.params["stage"] for run in stages] == ["0", "1"]
    open_in_mlflow(served, page, view_address(experiment, "stages"))
    page.get_by_text("stage 1 · checkpoint-V6").first.wait_for()
    shoot("mlflow-stages")
    open_in_mlflow(served, page, view_address(experiment, "curricula", chart=True))
    page.get_by_text("valid").first.wait_for()
    shoot("mlflow-chart")
    ids = json.dumps([run.info.run_id for run in stages])
    both = f'#/compare-runs?runs={ids}&experiments=["{experiment}"]&workflowType=machine_learning'
    open_in_mlflow(served, page, both)
    page.get_by_text("Comparing 2 Runs", exact=False).first.wait_for()
    shoot("mlflow-compare")
    open_in_mlflow(served, page, f"#/experiments/{experiment}/models?workflowType=machine_learning")
    page.get_by_text(f"{NAME}-stage-01").first.wait_for()
    shoot("mlflow-models")
    [model] = client.search_logged_models([experiment], filter_string=f"name = '{NAME}-stage-01'")
    one = f"#/experiments/{experiment}/models/{model.model_id}?workflowType=machine_learning"
    open_in_mlflow(served, page, one)
    page.get_by_text("valid/with-wait_required").first.wait_for()
    shoot("mlflow-model")


def test_engineer_variants_are_compared_in_the_browser(
    tmp_path: Path, page: Page, shoot: Callable[[str], None]
):
    smaller = ["--set", "epochs=1", "--set", "validation.instances=2", "--name", "rules"]
    rules = ["compare", "micro", "--engineers", "fixed,random", "--seeds", "0,1", *smaller]
    with serving(tmp_path) as served:
        done = subprocess.run(
            [sys.executable, "-m", "flows.cli", *rules],
            cwd=tmp_path,
            env=served.environment,
            capture_output=True,
            text=True,
            timeout=1500,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        experiment = experiment_of(served, "rules")
        open_in_mlflow(served, page, f"#/experiments/{experiment}/runs?workflowType=machine_learning")
        page.get_by_text("Against fixed, in valid rate at the end", exact=False).first.wait_for()
        shoot("mlflow-comparison")
        with page.expect_popup() as opened:
            page.get_by_role("link", name="Chart", exact=True).click()
        chart = opened.value
        chart.set_default_timeout(SLOW)
        for variant in ("fixed", "random"):
            chart.get_by_text(f"{variant} (valid)").first.wait_for()
            chart.get_by_text(f"Group: {variant}").wait_for()
        chart.wait_for_timeout(2_500)
        chart.screenshot(path=screenshots(tmp_path) / "mlflow-engineers.png")
