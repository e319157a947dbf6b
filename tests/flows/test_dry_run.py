"""`run --dry-run`: what the installed TRL makes of a preset, before anything is started or written."""

import json
from pathlib import Path

import pytest

from envgen.errors import ModelError
from infra.config.preset import Preset
from policy.grpo.check import TrainingPlan


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


def test_run_compare_and_dry_run_say_the_same_hours(envwright, monkeypatch: pytest.MonkeyPatch):
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
    printed = json.loads(envwright(*run, "--dry-run", "--json").out)
    assert printed["training_seconds"] == pytest.approx(seconds)
    eight = envwright("run", "qwen3-4b-8gpu", "--set", "trl.per_device_train_batch_size=2", "--dry-run").out
    assert "training time: 6.3 h on H200 cards" in eight, "as many answers a step on eight cards"
    limited = envwright(*run, "--dry-run", "--set", "training.max_tokens=8_700_000").out
    assert "training time: 0.8 h" in limited
    for name in ("tiny", "simulated"):
        assert "training time: unknown until the first steps" in envwright("run", name, "--dry-run").out
