"""Decisions on proposals of deployed runs, which are suspended until somebody decides: a real server, a real
worker, a curriculum of two stages."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.deployed_curriculum import Deployed, copy_stage_zero, run_command

from flows.commands.terminal import WAITING

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]
NAMES = ("asked-again", "rejected", "stopped", "restarted")


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    here = Deployed(tmp_path_factory.mktemp("deployed"))
    try:
        here.up()
        yield here
    finally:
        here.down()


@pytest.fixture(scope="module")
def waiting(deployed: Deployed) -> dict[str, str]:
    """Run -> its flow run, suspended after a stage 0 that all have in common."""
    deployed.run("flows.cli", *run_command("base", "required"), code=WAITING)
    for name in NAMES:
        copy_stage_zero(deployed.runs / "base", deployed.runs / name)
    flow_runs = {name: deployed.start(name, "required") for name in NAMES}
    for flow_run in flow_runs.values():
        deployed.suspended(flow_run)
    return flow_runs


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def undecided(run: Path) -> bool:
    return (
        not (run / "stage-00" / "decision.json").exists() and not (run / "stage-01" / "config.json").exists()
    )


def outcome(run: Path) -> dict[str, Any]:
    """The decision, once the stage after it has run with its config."""
    decision = read(run / "stage-00" / "decision.json")
    assert read(run / "stage-01" / "config.json") == decision["config"]
    assert len(read(run / "results.json")["stages"]) == 2
    return decision


def test_the_state_of_a_suspended_run_says_what_it_waits_for(deployed: Deployed, waiting: dict[str, str]):
    message = deployed.state(waiting["rejected"])["message"]
    assert message.startswith("waits for you to approve, edit or reject the config proposed for stage 1")
    assert "envwright approve rejected" in message


def test_answers_that_decide_nothing_are_refused_and_the_run_stays_suspended(
    deployed: Deployed, waiting: dict[str, str]
):
    flow_run, config = waiting["asked-again"], deployed.proposed(waiting["asked-again"])
    before = deployed.state(flow_run)
    size, *others = config
    partial = {size: {"data_ratio": 1.0}, **{other: config[other] for other in others}}
    for answer in (
        {},
        {"decision": "approve", "config": {size: config[size]}},
        {"decision": "approve", "config": partial},
        {"config": config},
    ):
        assert deployed.answer(flow_run, **answer) == "REJECT", answer
    assert deployed.state(flow_run) == before
    assert undecided(deployed.runs / "asked-again")


def test_a_run_asks_until_there_is_a_usable_decision(deployed: Deployed, waiting: dict[str, str]):
    flow_run, run = waiting["asked-again"], deployed.runs / "asked-again"
    deployed.call(
        "POST",
        f"/flow_runs/{flow_run}/set_state",
        {"state": {"type": "CRASHED", "name": "Crashed"}, "force": True},
    )
    deployed.run("prefect", "flow-run", "retry", flow_run)
    asked = deployed.suspended(flow_run)
    assert undecided(run), "nobody has seen the defaults of the form that the crash used up"

    config = deployed.proposed(flow_run)
    nothing = {size: {**knobs, "data_ratio": 0.0} for size, knobs in config.items()}
    assert deployed.answer(flow_run, decision="approve", config=nothing) == "ACCEPT"
    deployed.suspended(flow_run, since=asked)
    assert undecided(run)
    problem, _, proposal = deployed.form(flow_run, "description").partition("\n\n")
    assert "give at least one map size a share" in problem
    assert proposal, "the proposal is shown again too"

    small, *larger = config
    edited = {
        small: {**config[small], "data_ratio": 1.0},
        **{size: {**config[size], "data_ratio": 0.0} for size in larger},
    }
    assert (
        deployed.answer(flow_run, decision="approve", config=edited, comment="small ones", by="Ada")
        == "ACCEPT"
    )
    deployed.completed(flow_run)
    decision = outcome(run)
    assert (decision["decision"], decision["edited"], decision["via"]) == ("approve", True, "form")
    assert (decision["comment"], decision["by"]) == ("small ones", "Ada")
    shares = {size: knobs["data_ratio"] for size, knobs in decision["config"]["sizes"].items()}
    assert max(shares, key=lambda size: shares[size]) == small.removeprefix("stratum_")


def test_a_proposal_rejected_in_a_shell_wakes_the_suspended_run(deployed: Deployed, waiting: dict[str, str]):
    run = deployed.runs / "rejected"
    deployed.run("flows.cli", "reject", run.name, "--yes", "--comment", "too many holes")
    deployed.completed(waiting["rejected"])
    decision = outcome(run)
    assert (decision["decision"], decision["via"], decision["comment"]) == (
        "reject",
        "shell",
        "too many holes",
    )
    assert decision["config"] == read(run / "stage-00" / "config.json")


def test_a_stopped_run_ends_with_the_stage_that_it_has_also_when_it_is_started_again(
    deployed: Deployed, waiting: dict[str, str]
):
    flow_run, run = waiting["stopped"], deployed.runs / "stopped"
    assert deployed.answer(flow_run, decision="stop", config=deployed.proposed(flow_run)) == "ACCEPT"
    deployed.completed(flow_run)
    deployed.completed(deployed.start("stopped", "required"))
    assert read(run / "stage-00" / "decision.json")["decision"] == "stop"
    assert not (run / "stage-01" / "config.json").exists()
    assert len(read(run / "results.json")["stages"]) == 1


def test_a_suspended_run_survives_the_death_of_its_server(deployed: Deployed, waiting: dict[str, str]):
    flow_run, run = waiting["restarted"], deployed.runs / "restarted"
    before = deployed.state(flow_run)
    deployed.kill_server()
    deployed.up()
    assert deployed.state(flow_run) == before
    assert undecided(run)
    deployed.approve(flow_run)
    deployed.completed(flow_run)
    decision = outcome(run)
    assert (decision["decision"], decision["edited"]) == ("approve", False)
    assert decision["config"] == read(run / "stage-00" / "proposal.json")["config"]
