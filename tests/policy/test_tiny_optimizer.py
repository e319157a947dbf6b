"""Muon and AdamW as one optimizer: one schedule for both, and a state that is read back."""

import copy
import io
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import AutoModelForCausalLM

from policy.tiny.optimizer import MuonAdamW, parameters


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 4))


def optimizer_of(model: nn.Module) -> MuonAdamW:
    return MuonAdamW(**parameters(model), muon_lr=0.02, adamw_lr=0.004)


def take_step(model: nn.Module, optimizer: MuonAdamW, seed: int) -> None:
    optimizer.zero_grad()
    model(torch.randn(5, 6, generator=torch.Generator().manual_seed(seed))).square().sum().backward()
    optimizer.step()


def values(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def changed(model: nn.Module, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}


def reloaded(optimizer: MuonAdamW, model: nn.Module) -> MuonAdamW:
    """Another optimizer with the same state, which went through a file as a checkpoint does."""
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    fresh = optimizer_of(model)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    return fresh


MATRICES, REST = {"0.weight", "2.weight"}, {"0.bias", "1.weight", "1.bias", "2.bias"}


@pytest.mark.parametrize("loaded", [False, True], ids=["new", "loaded"])
@pytest.mark.parametrize(
    ("rates", "expected"),
    [((0.0, 0.0), set()), ((0.1, 0.0), MATRICES), ((0.0, 0.1), REST), ((0.1, 0.1), MATRICES | REST)],
)
def test_a_learning_rate_set_on_its_groups_reaches_both_parts(
    rates: tuple[float, float], expected: set[str], loaded: bool
):
    model = network()
    optimizer = optimizer_of(model)
    if loaded:
        take_step(model, optimizer, 1)
        optimizer = reloaded(optimizer, model)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    before = values(model)
    take_step(model, optimizer, 2)
    assert changed(model, before) == expected


def test_a_schedule_moves_both_rates():
    model = network()
    optimizer = optimizer_of(model)
    schedule = LambdaLR(optimizer, lambda step: 1 / (1 + step))
    assert schedule.get_last_lr() == [0.02, 0.004]
    take_step(model, optimizer, 1)
    schedule.step()
    assert schedule.get_last_lr() == [0.01, 0.002]
    assert [group["lr"] for part in optimizer._parts for group in part.param_groups] == [0.01, 0.002]


def test_the_state_that_was_saved_gives_the_same_next_steps():
    model = network()
    optimizer = optimizer_of(model)
    for seed in range(3):
        take_step(model, optimizer, seed)
    twin, forgetful = copy.deepcopy(model), copy.deepcopy(model)
    optimizers = {model: optimizer, twin: reloaded(optimizer, twin), forgetful: optimizer_of(forgetful)}
    for one, its_own in optimizers.items():
        for seed in range(3, 5):
            take_step(one, its_own, seed)
    assert changed(twin, values(model)) == set()
    assert changed(forgetful, values(model)) == MATRICES | REST, "the state of both parts matters"


def test_matrices_of_a_language_model_go_to_muon_and_all_else_to_adamw(random_checkpoint: Path):
    model = AutoModelForCausalLM.from_pretrained(random_checkpoint)
    found = parameters(model)
    assert sorted(map(id, found["params"] + found["rest"])) == sorted(map(id, model.parameters()))
    embedding = model.get_input_embeddings().weight
    assert any(one is embedding for one in found["rest"])
    assert len(found["params"]) == 2 * 7, "four maps of attention and three of the MLP in each of two layers"
    assert all(one.ndim == 2 for one in found["params"])
    assert all(one.ndim == 1 or one is embedding for one in found["rest"])
