"""`run --dry-run`: what the installed TRL makes of a preset, before anything is started or written."""

import json
from pathlib import Path

import pytest

from infra.config.preset import Preset


@pytest.mark.slow
def test_a_dry_run_tells_people_and_programs_preset_and_steps_also_of_a_new_preset(envwright, tmp_path: Path):
    done = envwright("run", "micro", "--seed", "7", "--dry-run")
    assert done.code == 0, done.err
    assert list(tmp_path.iterdir()) == []
    sizes = "training processes: 1, 32 completions of 8 prompts at a time, 4 optimizer steps a stage"
    for text in ("name: micro", "seed: 7", sizes):
        assert text in done.out
    found = json.loads(envwright("run", "micro", "--seed", "7", "--dry-run", "--json").out)
    assert Preset.model_validate(found["preset"]).seed == 7
    assert found["training"]["optimizer_steps"] == 4
    envwright("new", "preset", "mine", "--from", "micro")
    done = envwright("run", "./mine.yaml", "--dry-run")
    assert (done.code, "name: mine" in done.out, sizes in done.out) == (0, True, True)


@pytest.mark.slow
def test_a_misspelt_option_is_found_before_anything_is_answered(envwright, tmp_path: Path):
    for more in (["--dry-run"], []):
        done = envwright("run", "micro", "--set", "trl.lerning_rate=1", *more)
        assert (done.code, "trl.lerning_rate" in done.err, "did you mean" in done.err) == (2, True, True)
    assert not list(tmp_path.glob("**/rollouts*"))


@pytest.mark.parametrize("instances", [0, 1_000_001, 10**18])
def test_a_stage_has_a_million_instances_at_most(refused, instances: int):
    refused(["run", "micro", "--set", f"instances={instances}"], "instances: Input should be")
