from pathlib import Path
from typing import Any

import pytest

from envgen.errors import ConfigError
from policy.chat.engine_config import EngineConfig
from policy.grpo.launch import Sharding
from policy.grpo.memory import (
    EVALUATING,
    GENERATING,
    GIB,
    TRAINING,
    MemoryEstimate,
    Moment,
    estimate_memory,
    optimizer_bytes,
)
from policy.grpo.model_size import ModelSize
from policy.grpo.train_spec import TrainingSettings

SIZE = ModelSize(
    parameters=4_022_468_096,
    embedding=388_956_160,
    adapters=None,
    cached=73_728,
    vocab_size=151_936,
    dtype="bfloat16",
)
"""Qwen3-4B."""
ADAPTED = SIZE.model_copy(update={"adapters": 66_060_288})
WEIGHTS = SIZE.parameters
ANSWER = 8500 * 147_456
"""Bytes in the cache of an answer of full length and its prompt, in bfloat16."""
TRL: dict[str, Any] = {
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 16,
    "num_generations": 8,
    "max_completion_length": 8000,
}
VLLM: dict[str, Any] = TRL | {
    "use_vllm": True,
    "vllm_mode": "colocate",
    "vllm_enable_sleep_mode": True,
    "vllm_gpu_memory_utilization": 0.5,
}


ENGINE = EngineConfig(batch_size=4, dtype="bfloat16")
ON_VLLM = EngineConfig(backend="vllm", batch_size=4, dtype="bfloat16", gpu_memory_utilization=0.5)


def estimated(
    trl: dict[str, Any] = TRL,
    size: ModelSize = SIZE,
    gpu_memory: float | None = None,
    engine: EngineConfig = ENGINE,
    **training: Any,
) -> MemoryEstimate:
    return estimate_memory(size, TrainingSettings(**training), trl, engine, 500, 8000, gpu_memory)


def moment(estimate: MemoryEstimate, name: str) -> Moment:
    return next(one for one in estimate.moments if one.name == name)


def total(found: Moment, *words: str) -> float:
    """GiB of the parts that begin with one of these words."""
    return sum(size for name, size in found.parts.items() if name.startswith(words))


@pytest.mark.parametrize(
    ("settings", "each"),
    [
        ({}, 16),
        ({"dtype": "bfloat16"}, 8),
        ({"launch": "ddp", "processes": 8}, 16),
        ({"launch": "fsdp2", "processes": 8}, 16 / 8),
        ({"launch": "zero3", "processes": 8}, 16 / 8),
    ],
)
def test_weights_gradients_and_adam_take_so_many_bytes_a_weight_where_they_are_not_split(
    settings: dict, each: float
):
    found = moment(estimated(**settings), TRAINING)
    assert total(found, "weights", "gradients", "optimizer state") == pytest.approx(each * WEIGHTS / GIB)


def test_a_hub_models_own_precision_is_that_of_auto():
    assert estimated(dtype="auto") == estimated(dtype="bfloat16")


@pytest.mark.parametrize(
    ("optimizer", "each"),
    [
        (None, 8),
        ("adamw_torch", 8),
        ("paged_adamw_32bit", 8),
        ("lion_32bit", 4),
        ("sgd", 0),
        ("adafactor", 0),
        ("unheard_of", 8),
    ],
)
def test_an_optimizer_keeps_its_values(optimizer: str | None, each: int):
    assert optimizer_bytes(optimizer, 1000, 100, 4) == 1000 * each


def test_eight_bits_spare_the_embedding():
    assert optimizer_bytes("adamw_8bit", 1000, 100, 4) == pytest.approx(900 * 2 * (1 + 1 / 64) + 100 * 8)
    assert optimizer_bytes("adamw_8bit", 1000, 0, 4) < 1000 * 2.1


def test_adapters_leave_the_model_without_gradients():
    parts = moment(estimated(size=ADAPTED, dtype="bfloat16"), TRAINING).parts
    assert parts["weights"] == pytest.approx((2 * WEIGHTS + 4 * 66_060_288) / GIB)
    assert (parts["gradients"], parts["optimizer state"]) == (4 * 66_060_288 / GIB, 8 * 66_060_288 / GIB)


def test_zero_2_keeps_weights_whole(tmp_path: Path):
    path = tmp_path / "zero2.yaml"
    path.write_text("distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config: {zero_stage: 2}\n")
    sharding = Sharding.of(TrainingSettings(launch=str(path)))
    assert (sharding.processes, sharding.weights, sharding.gradients, sharding.optimizer) == (4, 1, 4, 4)
    path.write_text("- a list")
    with pytest.raises(ConfigError, match=r"zero2\.yaml: holds list, expected a mapping of fields"):
        Sharding.of(TrainingSettings(launch=str(path), processes=2))


def test_a_cache_of_transformers_holds_all_answers_that_are_generated_together():
    estimate = estimated(dtype="bfloat16")
    parts = moment(estimate, GENERATING).parts
    assert parts["logits"] == pytest.approx(16 * 151_936 * 4 / GIB)
    assert parts["KV cache"] == pytest.approx(16 * ANSWER / GIB)
    assert moment(estimate, EVALUATING).parts["KV cache"] == pytest.approx(4 * ANSWER / GIB)


def test_vllm_takes_its_share_of_a_known_card_and_sleeps_while_a_step_is_trained():
    known = estimated(VLLM, gpu_memory=80)
    generating = moment(known, GENERATING)
    assert total(generating, "vLLM") == pytest.approx(40)
    assert generating.sequences == int(generating.parts["vLLM's KV cache"] * GIB // ANSWER) > 16
    assert total(moment(known, TRAINING), "vLLM") == 0
    awake = moment(estimated(VLLM | {"vllm_enable_sleep_mode": False}, gpu_memory=80), TRAINING)
    assert total(awake, "vLLM") == pytest.approx(40)


def test_an_engine_on_vllm_takes_its_share_too():
    engine = moment(estimated(engine=ON_VLLM, gpu_memory=80), EVALUATING)
    assert total(engine, "vLLM") == pytest.approx(40)
    assert engine.sequences == int(engine.parts["vLLM's KV cache"] * GIB // ANSWER)
    usual = ON_VLLM.model_copy(update={"gpu_memory_utilization": None})
    assert moment(estimated(engine=usual, gpu_memory=80), EVALUATING).total == pytest.approx(0.92 * 80)
    unknown = moment(estimated(engine=ON_VLLM), EVALUATING)
    assert unknown.parts["vLLM's KV cache"] == pytest.approx(4 * ANSWER / GIB)


@pytest.mark.parametrize(("dtype", "each"), [("auto", 2), ("float32", 4)])
def test_vllm_holds_a_checkpoint_in_float32_in_16_bits_unless_told_otherwise(dtype: str, each: int):
    stored, engine = SIZE.model_copy(update={"dtype": "float32"}), EngineConfig(backend="vllm", dtype=dtype)
    parts = moment(estimated(size=stored, engine=engine), EVALUATING).parts
    assert parts["vLLM's weights"] == pytest.approx(each * WEIGHTS / GIB)


def test_vllm_on_an_unknown_card_is_counted_with_the_cache_that_its_answers_need():
    unknown = moment(estimated(VLLM), GENERATING)
    assert unknown.sequences is None
    assert unknown.parts["vLLM's KV cache"] == pytest.approx(16 * ANSWER / GIB)


def test_a_vllm_server_takes_nothing_here():
    assert not any(total(one, "vLLM") for one in estimated(VLLM | {"vllm_mode": "server"}).moments)


def test_a_reference_model_is_loaded_for_a_penalty_only():
    assert "reference model" not in moment(estimated(TRL | {"beta": 0.0}), TRAINING).parts
    penalised = moment(estimated(TRL | {"beta": 0.04}), TRAINING).parts
    assert penalised["reference model"] == pytest.approx(4 * WEIGHTS / GIB)


def test_the_largest_moment_counts():
    estimate = estimated(VLLM, gpu_memory=80)
    assert estimate.peak.total == max(one.total for one in estimate.moments)
    assert estimate.peak.total == pytest.approx(sum(estimate.peak.parts.values()))


def test_batches_of_broken_groups_are_refused():
    with pytest.raises(ConfigError, match=r"trl\.num_generations: 8 does not divide the 12 answers"):
        estimated(TRL | {"gradient_accumulation_steps": 12})
