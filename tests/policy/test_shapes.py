import json
import shutil
from pathlib import Path

import pytest

from envgen.errors import ModelError
from policy.checkpoints import TINY_DIRECTORY
from policy.shapes import SHAPES, ArchitectureError, ModelShape, model_shape

KNOWN = sorted(json.loads(SHAPES.read_text()))


def built(shape: ModelShape):
    """transformers' own model of a shape, without memory for its weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        **shape.config,
    )
    with torch.device("meta"):
        return Qwen3ForCausalLM(config)


@pytest.mark.parametrize("model", [*KNOWN, "tiny"])
def test_parameters_are_counted_as_transformers_counts_them(model: str):
    shape = model_shape(model)
    assert shape.parameters == built(shape).num_parameters()


def test_an_lm_head_of_its_own_is_counted():
    shape = model_shape("tiny").model_copy(update={"tied": False})
    assert shape.parameters == built(shape).num_parameters() == model_shape("tiny").parameters + shape.embedding_parameters


@pytest.mark.parametrize("targets", [None, "all-linear", ["k_proj", "down_proj"]])
def test_adapters_are_counted_as_peft_counts_them(targets: str | list[str] | None):
    from peft import LoraConfig, get_peft_model

    options = {"r": 4} | ({} if targets is None else {"target_modules": targets})
    shape = model_shape("Qwen/Qwen3-1.7B")
    adapted = get_peft_model(built(shape), LoraConfig(task_type="CAUSAL_LM", **options))
    assert shape.lora_parameters(options) == sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)


def test_adapters_of_maps_that_are_not_there_are_refused():
    with pytest.raises(ModelError, match=r"target_modules: 'lm_head' is no linear map of this model; choose of q_proj"):
        model_shape("tiny").lora_parameters({"target_modules": ["q_proj", "lm_head"]})


def test_a_checkpoint_tells_its_own_shape(tmp_path: Path):
    shutil.copy(TINY_DIRECTORY / "config.json", tmp_path)
    assert model_shape(str(tmp_path)) == model_shape("tiny")
    assert (model_shape("tiny").layers, model_shape("tiny").dtype, model_shape("Qwen/Qwen3-4B").dtype) == (4, "float32", "bfloat16")


def test_another_architecture_is_refused(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ArchitectureError, match="estimated for model_type qwen3 only, this is 'llama'"):
        model_shape(str(tmp_path))


def test_a_hub_id_that_cannot_be_reached_is_answered_with_those_that_need_no_network(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=r"nobody/nothing: its shape is not at hand and cannot be fetched: .*; known without network are Qwen/Qwen3-0.6B"):
        model_shape("nobody/nothing")
