"""The gate in a real run: training that wrecks the policy is undone, and the run ends with what it had."""

import json
from pathlib import Path

import pytest
from support.envwright_command import envwright

WRECKING = ["--set", "trl.learning_rate=0.1", "--set", "engineer.gate=rollback"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_that_wrecks_its_policy_ends_with_the_base_policy(tmp_path: Path):
    said = envwright(
        tmp_path, "run", "micro", "--engineer", "random", "--stages", "1", *WRECKING, "--name", "undone"
    ).stdout
    assert "the run ends with the base policy" in said
    run = tmp_path / "runs" / "undone"
    results = json.loads((run / "results.json").read_text())
    default = json.loads((run / "curriculum.json").read_text())["preset"]["default_config"]
    assert [
        (stage["parent"], stage["gate"]["action"], stage["gate"]["in_force"]) for stage in results["stages"]
    ] == [(-1, "rollback", -1)]
    assert all(stage["config"] == default for stage in results["stages"])
    assert all(stage["gate"]["valid"]["high"] < 0 for stage in results["stages"])
    assert "The gate rolled back: the run ends with the base policy." in (run / "report.html").read_text()
