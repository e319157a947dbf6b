"""`run --dry-run`: what the installed TRL makes of a preset, before anything is started or written."""

import json
from pathlib import Path

import pytest

from envgen.errors import ModelError
from infra.config.preset import Preset
from policy.grpo.check import TrainingPlan


@pytest.mark.slow
def test_a_misspelt_option_is_found_before_anything_is_answered(envwright, tmp_path: Path):
    for more in (["--dry-run"], []):
        done = envwright("run", "micro", "--set", "trl.lerning_rate=1", *more)
        assert (done.code, "trl.lerning_rate" in done.err, "did you mean" in done.err) == (2, True, True)
    assert not list(tmp_path.glob("**/rollouts*"))


def test_a_dry_run_tells_the_steps_and_hours_that_run_and_compare_tell(envwright, tmp_path, monkeypatch):
    def offline(model: str) -> None:
        raise ModelError("nothing is started here")

    plan = TrainingPlan(processes=1, prompts=16, completions=128, optimizer_steps=500)
    monkeypatch.setattr(Preset, "plan", lambda self: plan)
    monkeypatch.setattr("flows.commands.run_cli.check_hub", offline)
    run, compare = ["run", "qwen3-4b"], ["compare", "qwen3-4b", "--engineers", "fixed", "--seeds"]
    seconds = 3 * 500 * 128 * 8192 / 8700
    assert 50.1 < seconds / 3600 < 50.3
    for command in ([*run, "--dry-run"], run, [*compare, "0", "--plan"], [*compare, "0"]):
        assert "training time: 50.2 h on H200 cards" in envwright(*command).out, command
    assert "training time: 100.4 h on H200 cards" in envwright(*compare, "0,1", "--plan").out
    printed = json.loads(envwright(*run, "--seed", "7", "--dry-run", "--json").out)
    assert printed["training_seconds"] == pytest.approx(seconds)
    assert printed["training"] == plan.model_dump(mode="json")
    assert Preset.model_validate(printed["preset"]).seed == 7
    sizes = "training processes: 1, 128 completions of 16 prompts at a time, 500 optimizer steps a stage"
    said = envwright(*run, "--seed", "7", "--dry-run").out
    assert all(text in said for text in ("name: qwen3-4b", "seed: 7", sizes))
    assert list(tmp_path.iterdir()) == []
    eight = envwright("run", "qwen3-4b-8gpu", "--set", "trl.per_device_train_batch_size=2", "--dry-run").out
    assert "training time: 6.3 h on H200 cards" in eight, "as many answers a step on eight cards"
    limited = envwright(*run, "--dry-run", "--set", "training.max_tokens=8_700_000").out
    assert "training time: 0.8 h" in limited
    unknown = {"tiny": "training time: known for Qwen3 models only", "simulated": "no model is trained"}
    for name, words in unknown.items():
        assert words in envwright("run", name, "--dry-run").out
