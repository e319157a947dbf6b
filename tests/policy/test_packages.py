"""Packages that a preset needs are asked for before anything is computed."""

import pytest

from envgen.errors import ConfigError
from policy.grpo.packages import check_packages, missing_packages
from policy.grpo.train_spec import TrainingSettings


def test_what_is_not_installed_is_named_with_its_setting_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    # Somebody may have them installed.
    monkeypatch.setattr("policy.grpo.packages.find_spec", lambda name: None)
    with pytest.raises(ConfigError) as refusal:
        check_packages({"use_vllm": True, "optim": "paged_adamw_8bit"}, TrainingSettings(launch="zero3"))
    said = str(refusal.value)
    assert "trl.use_vllm: needs vllm, which is not installed: pip install vllm==" in said
    assert (
        "trl.optim paged_adamw_8bit: needs bitsandbytes, which is not installed: pip install"
        " 'envwright[8bit]'" in said
    )
    assert "training.launch zero3: needs deepspeed, which is not installed" in said


def test_what_every_installation_has_is_enough_for_the_other_launch_configs():
    for launch in (None, "one-gpu", "ddp", "fsdp2", "cpu"):
        assert (
            missing_packages(
                {"optim": "adamw_torch_fused", "use_liger_kernel": False}, TrainingSettings(launch=launch)
            )
            == {}
        )
