"""A person at the two UIs in a real browser: approve an edited proposal, cancel and retry a run."""

import json
from pathlib import Path

import pytest
from support.browser import browser, new_page
from support.envwright_serve import Served, serving
from support.prefect_servers import wait_until
from support.two_uis import experiment_of, log_in, open_approval, open_in_mlflow, open_menu

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(2400)]
REQUIRED = '{"approval": "required"}'


def decision_of(served: Served, name: str) -> dict:
    stage = served.folder / "runs" / name / "stage-00"
    decision = json.loads((stage / "decision.json").read_text())
    following = json.loads((stage.parent / "stage-01" / "config.json").read_text())
    assert following == decision["config"]
    return decision


def test_proposals_are_decided_in_the_browser_and_in_a_shell(tmp_path: Path):
    with serving(tmp_path) as served, browser() as opened:
        user, _, password = served.auth_string.partition(":")
        page = new_page(opened, 1500, 1050, login=(user, password))
        log_in(served, page)
        served.start("edited", REQUIRED)
        form = open_approval(served, page, "edited")
        form.get_by_role("button", name="Resume").click()
        page.wait_for_timeout(2_000)
        assert served.flow_run("edited")["state"]["name"] == "Suspended", "a form without a decision"
        form.get_by_text("Select", exact=True).first.click()
        page.get_by_role("option", name="approve", exact=True).click()
        form.locator("input[type=number]").first.fill("0.05")
        form.locator("textarea").first.fill("fewer small maps")
        form.get_by_role("button", name="Resume").click()
        form.wait_for(state="hidden")
        served.reach("edited", "Completed")
        decision = decision_of(served, "edited")
        assert (decision["decision"], decision["edited"], decision["via"]) == ("approve", True, "form")
        assert decision["comment"] == "fewer small maps"
        assert decision["config"]["sizes"]["3"]["data_ratio"] < 0.1

        served.start("rejected", REQUIRED)
        served.reach("rejected", "Suspended")
        assert "continues" in served.run("flows.cli", "reject", "rejected", "--yes").stdout
        wait_until((tmp_path / "runs" / "rejected" / "stage-01" / "config.json").exists, 300)
        assert decision_of(served, "rejected")["decision"] == "reject"
        open_menu(served, page, "rejected").get_by_role("menuitem", name="Cancel").click()
        page.get_by_role("button", name="Cancel Flow Run").click()
        served.reach("rejected", "Cancelled", 120)
        assert served.run("prefect", "flow-run", "retry", served.flow_run("rejected")["id"]).returncode == 0
        wait_until(lambda: served.flow_run("rejected")["state"]["name"] == "Completed", 600)

        experiment = experiment_of(served, "micro")
        open_in_mlflow(served, page, f"#/experiments/{experiment}/runs?workflowType=machine_learning")
        page.get_by_text("edited").first.wait_for()
