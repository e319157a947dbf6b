"""The counts of `policy.activations` against what PyTorch keeps, for small Qwen3 of the proportions of the real ones."""

import weakref
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import Qwen3Config, Qwen3ForCausalLM
from trl.kernels.chunked_logprob import TOKEN_CHUNK_SIZE
from trl.trainer.utils import _CHUNKED_LOGPROB_CHUNK_SIZE, add_fused_lm_head

from policy.activations import ADAPTERS, AUTOCAST, BFLOAT16, FLOAT32, TOKEN_CHUNK, VOCAB_CHUNK, Precision, pass_bytes, precision_of, saved_bytes
from policy.shapes import ModelShape

BATCH, LENGTH, ANSWER = 4, 320, 256
PRECISIONS = {"float32": FLOAT32, "autocast": AUTOCAST, "bfloat16": BFLOAT16, "adapters": ADAPTERS}
# As 0.6B: h : i : q : k = 1 : 3 : 2 : 1, and as 4B: 1 : 3.8 : 1.6 : 0.4.
SHAPES = {
    "0.6B": ModelShape(hidden_size=128, layers=4, heads=4, kv_heads=2, head_dim=64, intermediate_size=384, vocab_size=300, tied=True, max_positions=512),
    "4B": ModelShape(hidden_size=160, layers=4, heads=8, kv_heads=2, head_dim=32, intermediate_size=608, vocab_size=300, tied=True, max_positions=512),
}


def model_of(shape: ModelShape, how: str, checkpointing: bool) -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        **shape.config,
    )
    model = Qwen3ForCausalLM(config).train()
    if how in ("bfloat16", "adapters"):
        model = model.to(torch.bfloat16)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    if how == "adapters":
        model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
        model.enable_input_require_grads()
    if checkpointing:
        model.gradient_checkpointing_enable()
    return model


def batch_of(shape: ModelShape) -> dict[str, torch.Tensor]:
    """Prompts padded on the left, as the trainer hands them over."""
    tokens = torch.randint(0, shape.vocab_size, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(tokens)
    mask[0, :10] = 0
    return {"input_ids": tokens, "attention_mask": mask}


def under(how: str) -> Any:
    return torch.autocast("cpu", torch.bfloat16, enabled=how in ("autocast", "adapters"))


def measured_saved(model: Any, shape: ModelShape, how: str) -> int:
    """Bytes of all storages that a loss on log-probabilities saves for its backward pass, weights and their copies left out."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    sizes = {tuple(weight.shape) for weight in model.parameters()}
    sizes |= {size[::-1] for size in sizes}
    saved: dict[int, tuple[int, torch.Tensor]] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights and tuple(tensor.shape) not in sizes:
            saved[storage.data_ptr()] = (storage.nbytes(), tensor)  # held, so that no address is used twice
        return tensor

    batch = batch_of(shape)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    labels[:, :-ANSWER] = -100
    with saved_tensors_hooks(keep, lambda tensor: tensor), under(how):
        output = model(**batch, labels=labels, fused_lm_head=True)
    output.log_probs.mean().backward()
    return sum(size for size, _ in saved.values())


@pytest.mark.parametrize("checkpointing", [True, False])
@pytest.mark.parametrize("how", PRECISIONS)
@pytest.mark.parametrize("size", SHAPES)
def test_what_is_saved_for_the_backward_pass_is_counted(size: str, how: str, checkpointing: bool):
    shape, precision = SHAPES[size], PRECISIONS[how]
    measured = measured_saved(model_of(shape, how, checkpointing), shape, how)
    head = BATCH * LENGTH * shape.hidden_size * precision.residual
    counted = saved_bytes(shape, precision, BATCH * LENGTH, LENGTH, checkpointing) + head
    assert counted == pytest.approx(measured, rel=0.05)


class Live(TorchDispatchMode):
    """The most bytes that were alive at a time, of storages made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        output = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor) and (storage := tensor.untyped_storage())._cdata not in self.sizes:
                self.sizes[storage._cdata] = storage.nbytes()
                weakref.finalize(storage, self.sizes.pop, storage._cdata, None)
        self.most = max(self.most, sum(self.sizes.values()))
        return output


@pytest.mark.parametrize("checkpointing", [True, False])
@pytest.mark.parametrize("how", PRECISIONS)
def test_the_peak_of_a_pass_is_estimated_within_15_percent(how: str, checkpointing: bool):
    """Of the layers: the LM head's tiles are folded by other code on a GPU than here."""
    shape = SHAPES["4B"]
    model = model_of(shape, how, checkpointing)
    layers = (model.get_base_model() if how == "adapters" else model).model
    live = Live()
    with live:
        with under(how):
            states = layers(**batch_of(shape), use_cache=False).last_hidden_state
        states.sum().backward()
    gradients = sum(weight.grad.numel() * weight.grad.element_size() for weight in model.parameters() if weight.grad is not None)
    estimate = pass_bytes(shape, PRECISIONS[how], BATCH * LENGTH, LENGTH, 0, checkpointing, trained=False)
    assert sum(estimate) + gradients / shape.layers == pytest.approx(live.most, rel=0.15)


def test_the_tiles_are_those_of_the_installed_trainer():
    assert (TOKEN_CHUNK, VOCAB_CHUNK) == (TOKEN_CHUNK_SIZE, _CHUNKED_LOGPROB_CHUNK_SIZE)


def test_the_head_holds_tiles_and_not_all_logits():
    shape = SHAPES["4B"].model_copy(update={"vocab_size": 151_936, "hidden_size": 2560})
    frozen, trained = (pass_bytes(shape, ADAPTERS, 8192, 8192, 8192, False, trained).head for trained in (False, True))
    assert frozen == 4096 * 32_768 * 2 + 8192 * 2560 * (2 + 4)
    assert trained == frozen + 151_936 * 2560 * 4 < 8192 * 151_936 * 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((4, False, True, False), AUTOCAST),
        ((4, False, False, False), FLOAT32),
        ((2, False, True, False), BFLOAT16),
        ((4, False, True, True), BFLOAT16),
        ((2, True, True, False), ADAPTERS),
    ],
)
def test_a_pass_computes_as_its_weights_and_options_say(given: tuple[int, bool, bool, bool], expected: Precision):
    assert precision_of(*given) == expected
