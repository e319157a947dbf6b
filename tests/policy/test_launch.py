"""Training as it is really started: by a launcher in two processes, with LoRA, killed and resumed with other
memory options."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest
import torch
from boards import train_spec
from safetensors.torch import load_file
from support.boards import boards_config, sample_boards

from envgen.errors import ChildError
from policy.checkpoints import resolve_model
from policy.child import run_child
from policy.grpo.launch import launch_config, launcher
from policy.grpo.train_log import read_train_log
from policy.grpo.train_spec import TrainingSettings, TrainSpec, deciding_options, last_checkpoint

pytestmark = pytest.mark.timeout(900)
OPTIONS = {"max_completion_length": 24, "learning_rate": 3e-3, "beta": 0.0, "num_train_epochs": 2}


def spec_of(folder: Path, training: TrainingSettings, **options) -> TrainSpec:
    instances = sample_boards(boards_config({3: (1, 0.2, 0.75)}), 16, seed=5)
    training = training.model_copy(update={"save_minutes": 0})
    return train_spec(folder, instances, training, **OPTIONS, **options)


def train(spec: TrainSpec, progress: Callable = lambda entry: None, module: str = "policy.grpo.training"):
    log, own = spec.output / "training.log", launcher(spec.training, spec.trl)
    run_child(module, spec, spec.work / "spec.json", log, progress, launcher=own)


def kill_after_two_steps(entry: dict) -> None:
    if entry["step"] == 2:
        children = psutil.Process().children()
        [launcher] = [child for child in children if "accelerate" in str(child.cmdline())]
        launcher.kill()


@pytest.mark.slow
def test_two_processes_train_one_policy_and_a_killed_stage_goes_on_with_smaller_parts(tmp_path: Path):
    two = TrainingSettings(launch="cpu", refill=2.0)
    whole = spec_of(tmp_path, two)
    seen: list[dict] = []
    with pytest.raises(ChildError, match="killed by SIGKILL"):
        train(whole, lambda entry: (seen.append(entry), kill_after_two_steps(entry)))
    saved = last_checkpoint(whole.work)
    assert saved is not None
    assert [entry["step"] for entry in seen] == [1, 2], "only the first process tells of its progress"
    parts = spec_of(tmp_path, two, per_device_train_batch_size=8, gradient_accumulation_steps=2)
    assert deciding_options(parts.trl, two, 2) == deciding_options(whole.trl, two, 2)

    train(parts)
    assert f"resuming from {saved.name}" in (tmp_path / "training.log").read_text()
    log = read_train_log(tmp_path / "train_log.parquet")
    assert log["step"] == [1, 2, 3, 4]
    kept = [[(entry["stratum"], entry["kept"]) for entry in step] for step in log["strata"]]
    assert kept == [[("3", 32)]] * 4
    there, last, here = (
        load_file(Path(folder) / "model.safetensors")
        for folder in (resolve_model("tiny"), parts.work / "checkpoint-4", tmp_path / "checkpoint")
    )
    assert here.keys() == last.keys() == there.keys()
    assert all(here[name].equal(last[name]) for name in here), "the weights of the last step"
    assert not any(here[name].equal(there[name]) for name in here)
    assert not (tmp_path / "checkpoint" / "training_args.bin").exists()


LORA = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear"}


def split_over_two(folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> TrainingSettings:
    """Two processes under FSDP2, on the cores of a CPU."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    config = folder / "fsdp2.yaml"
    config.write_text(launch_config("fsdp2").read_text().replace("use_cpu: false", "use_cpu: true"))
    return TrainingSettings(launch=str(config), processes=2, **settings)


@pytest.mark.slow
def test_the_state_of_a_split_optimizer_is_carried_into_the_next_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, random_checkpoint: Path
):
    parent = shutil.copytree(random_checkpoint, tmp_path / "parent")
    before = {
        name: {"exp_avg": 100 * torch.randn_like(part), "exp_avg_sq": torch.full_like(part, 1e6)}
        for name, part in load_file(parent / "model.safetensors").items()
    }
    before = {name: {"step": torch.tensor(5.0), **state} for name, state in before.items()}
    torch.save(before, parent / "optimizer.pt")
    spec = spec_of(tmp_path, split_over_two(tmp_path, monkeypatch, carry_optimizer=True), max_steps=1)
    train(spec.model_copy(update={"parent": str(parent)}), module="support.split_training")
    after = torch.load(tmp_path / "checkpoint" / "optimizer.pt")
    assert after.keys() == before.keys()
    for name, state in after.items():
        assert float(state["step"]) == 6
        # A gradient of norm 1 at most is 0.1 of the new mean.
        assert torch.allclose(state["exp_avg"], 0.9 * before[name]["exp_avg"], atol=0.1), name


@pytest.mark.slow
@pytest.mark.parametrize(("lora", "dtype"), [(LORA, "float32"), (None, "bfloat16")])
def test_split_weights_are_saved_in_parts_and_published_whole_in_their_own_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lora: dict | None, dtype: Literal["float32", "bfloat16"]
):
    settings = split_over_two(tmp_path, monkeypatch, lora=lora, dtype=dtype)
    spec = spec_of(tmp_path, settings, bf16=dtype == "bfloat16")
    with pytest.raises(ChildError, match="killed by SIGKILL"):
        train(spec, kill_after_two_steps, "support.split_training")
    assert (saved := last_checkpoint(spec.work))
    for part in ("pytorch_model_fsdp_0", "optimizer_0"):
        assert {file.name for file in (saved / part).glob("*.distcp")} == {"__0_0.distcp", "__1_0.distcp"}
    train(spec, module="support.split_training")
    log = (tmp_path / "training.log").read_text()
    assert f"resuming from {saved.name}" in log
    there = load_file(Path(resolve_model("tiny")) / "model.safetensors")
    here = load_file(tmp_path / "checkpoint" / "model.safetensors")
    assert here.keys() == there.keys()
    assert {str(weights.dtype) for weights in here.values()} == {f"torch.{dtype}"}
    changed = {name for name in here if not here[name].equal(there[name].to(here[name].dtype))}
    assert changed
    if lora:
        assert all("proj" in name for name in changed), "an adapter touches the linear layers only"
        [off] = re.findall(r"differ by (\S+) nats", log)
        assert float(off) < 1e-3
