"""The gate in a whole run: stages that wreck the policy are undone, and the run ends with what it had."""

import json
from pathlib import Path

import pytest
from support.envwright_command import envwright

from envgen.files import write_json
from infra.config.preset import load_preset
from policy.checkpoints import SIMULATED_STATE
from policy.learner import Learner
from policy.simulated import SimulatedPolicy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """A run of two stages whose policy knows nearly everything at first, and changes at random."""
    skills = dict.fromkeys(load_preset("simulated").space.names, (3.0, 0.0, 3.0))
    policy = SimulatedPolicy(learner=Learner(noise=15), skills=skills)
    write_json(tmp_path / "model" / SIMULATED_STATE, policy)
    return ["run", "simulated", "--stages", "2", "--engineer", "random", "--set", "model=./model"]


def test_a_run_that_wrecks_its_policy_ends_with_the_base_policy(command: list[str], tmp_path, server: str):
    options = [*command, "--set", "engineer.gate=rollback", "--name", "undone"]
    said = envwright(tmp_path, *options, PREFECT_API_URL=server).stdout
    assert "a drop; the next stage starts from the base policy with the config of stage 0" in said
    assert "the run ends with the base policy" in said
    run = tmp_path / "runs" / "undone"
    results = json.loads((run / "results.json").read_text())
    default = json.loads((run / "curriculum.json").read_text())["preset"]["default_config"]
    gates = [(stage["gate"]["action"], stage["gate"]["in_force"]) for stage in results["stages"]]
    assert gates == [("rollback", -1)] * 2
    assert all(stage["config"] == default for stage in results["stages"])
    assert all(stage["gate"]["valid"]["high"] < 0 for stage in results["stages"])
    assert "The gate rolled back: the run ends with the base policy." in (run / "report.html").read_text()
