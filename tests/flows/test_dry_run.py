"""`run --dry-run`: what the installed TRL makes of a preset, before anything is started or written."""

import json
from pathlib import Path

import pytest

from infra.config.preset import Preset


@pytest.mark.slow
def test_a_dry_run_prints_preset_steps_and_tokens_and_leaves_nothing(envwright, tmp_path: Path):
    done = envwright("run", "qwen3-4b-8gpu", "--seed", "7", "--dry-run")
    assert done.code == 0, done.err
    assert list(tmp_path.iterdir()) == []
    for text in (
        "name: qwen3-4b-8gpu",
        "seed: 7",
        "training processes: 8, 256 completions of 32 prompts at a time",
        "250 optimizer steps a stage",
    ):
        assert text in done.out


@pytest.mark.slow
def test_a_dry_run_is_readable_by_programs_and_a_new_preset_runs_as_its_source(envwright):
    found = json.loads(envwright("run", "micro", "--seed", "7", "--dry-run", "--json").out)
    assert Preset.model_validate(found["preset"]).seed == 7
    assert found["preset"]["engineer"]["wording"] == "compact"
    assert found["training"]["optimizer_steps"] == 4
    envwright("new", "preset", "mine", "--from", "micro")
    done = envwright("run", "./mine.yaml", "--dry-run")
    assert done.code == 0
    assert "name: mine" in done.out
    assert "4 optimizer steps a stage" in done.out


@pytest.mark.slow
def test_a_misspelt_option_is_found_before_anything_is_answered(envwright, tmp_path: Path):
    for more in (["--dry-run"], []):
        done = envwright("run", "micro", "--set", "trl.lerning_rate=1", *more)
        assert (done.code, "trl.lerning_rate" in done.err, "did you mean" in done.err) == (2, True, True)
    assert not list(tmp_path.glob("**/rollouts*"))


@pytest.mark.parametrize("instances", [0, 1_000_001, 10**18])
def test_a_stage_has_a_million_instances_at_most(refused, instances: int):
    refused(["run", "micro", "--set", f"instances={instances}"], "instances: Input should be")
