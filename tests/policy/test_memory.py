from pathlib import Path
from typing import Any

import pytest

from envgen.errors import ConfigError
from policy.chat.engine_config import EngineConfig
from policy.grpo.memory import EVALUATING, GENERATING, GIB, TRAINING, MemoryEstimate, Moment, estimate_memory
from policy.grpo.model_size import ModelSize
from policy.grpo.sharding import Sharding, optimizer_bytes
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


def estimated(
    trl: dict[str, Any] = TRL, size: ModelSize = SIZE, gpu_memory: float | None = None, **training: Any
) -> MemoryEstimate:
    return estimate_memory(
        size,
        TrainingSettings(**training),
        trl,
        EngineConfig(batch_size=4, dtype="bfloat16"),
        500,
        8000,
        gpu_memory,
    )


def moment(estimate: MemoryEstimate, name: str) -> Moment:
    return next(one for one in estimate.moments if one.name == name)


def test_weights_gradients_and_adam_take_16_bytes_a_weight():
    parts = moment(estimated(), TRAINING).parts
    assert sum(parts[name] for name in ("weights", "gradients", "optimizer state")) == pytest.approx(
        16 * WEIGHTS / GIB
    )
    halved = moment(estimated(dtype="bfloat16"), TRAINING).parts
    assert sum(halved[name] for name in ("weights", "gradients", "optimizer state")) == pytest.approx(
        8 * WEIGHTS / GIB
    )


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


@pytest.mark.parametrize(("launch", "each"), [("ddp", 16), ("fsdp2", 16 / 8), ("zero3", 16 / 8)])
def test_a_launch_config_says_what_is_split(launch: str, each: float):
    parts = moment(estimated(launch=launch, processes=8), TRAINING).parts
    assert sum(parts[name] for name in ("weights", "gradients", "optimizer state")) == pytest.approx(
        each * WEIGHTS / GIB
    )


def test_zero_2_keeps_weights_whole(tmp_path: Path):
    path = tmp_path / "zero2.yaml"
    path.write_text("distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config: {zero_stage: 2}\n")
    sharding = Sharding.of(TrainingSettings(launch=str(path)))
    assert (sharding.processes, sharding.weights, sharding.gradients, sharding.optimizer) == (4, 1, 4, 4)
    path.write_text("- a list")
    with pytest.raises(ConfigError, match="holds list, expected a config of accelerate launch"):
        Sharding.of(TrainingSettings(launch=str(path), processes=2))


def test_a_cache_of_transformers_holds_all_answers_that_are_generated_together():
    parts = moment(estimated(dtype="bfloat16"), GENERATING).parts
    assert parts["logits"] == pytest.approx(16 * 151_936 * 4 / GIB)
    assert parts["KV cache"] == pytest.approx(16 * 8500 * 147_456 / GIB)
    assert moment(estimated(dtype="bfloat16"), EVALUATING).parts["KV cache"] == pytest.approx(
        4 * 8500 * 147_456 / GIB
    )


def test_vllm_takes_its_share_of_a_known_card_and_sleeps_while_a_step_is_trained():
    known = estimated(VLLM, gpu_memory=80)
    parts = moment(known, GENERATING).parts
    assert sum(size for name, size in parts.items() if name.startswith("vLLM")) == pytest.approx(40)
    assert moment(known, GENERATING).sequences == int(parts["vLLM's KV cache"] * GIB // (8500 * 147_456)) > 16
    assert not any(name.startswith("vLLM") for name in moment(known, TRAINING).parts)
    awake = moment(estimated(VLLM | {"vllm_enable_sleep_mode": False}, gpu_memory=80), TRAINING).parts
    assert sum(size for name, size in awake.items() if name.startswith("vLLM")) == pytest.approx(40)


def test_an_engine_on_vllm_takes_its_share_too():
    config = EngineConfig(backend="vllm", batch_size=4, dtype="bfloat16", gpu_memory_utilization=0.5)
    engine = moment(estimate_memory(SIZE, TrainingSettings(), TRL, config, 500, 8000, 80), EVALUATING)
    assert sum(size for name, size in engine.parts.items() if name.startswith("vLLM")) == pytest.approx(40)
    assert engine.sequences == int(engine.parts["vLLM's KV cache"] * GIB // (8500 * 147_456))
    default = moment(
        estimate_memory(
            SIZE,
            TrainingSettings(),
            TRL,
            config.model_copy(update={"gpu_memory_utilization": None}),
            500,
            8000,
            80,
        ),
        EVALUATING,
    )
    assert default.total == pytest.approx(0.92 * 80)
    unknown = moment(estimate_memory(SIZE, TrainingSettings(), TRL, config, 500, 8000), EVALUATING)
    assert unknown.parts["vLLM's KV cache"] == pytest.approx(4 * 8500 * 147_456 / GIB)


def test_vllm_holds_a_checkpoint_in_float32_in_16_bits_unless_told_otherwise():
    stored = SIZE.model_copy(update={"dtype": "float32"})
    for config, each in (
        (EngineConfig(backend="vllm"), 2),
        (EngineConfig(backend="vllm", dtype="float32"), 4),
    ):
        parts = moment(estimate_memory(stored, TrainingSettings(), TRL, config, 500, 8000), EVALUATING).parts
        assert parts["vLLM's weights"] == pytest.approx(each * WEIGHTS / GIB)


def test_vllm_on_an_unknown_card_is_counted_with_the_cache_that_its_answers_need():
    unknown = moment(estimated(VLLM), GENERATING)
    assert unknown.sequences is None
    assert unknown.parts["vLLM's KV cache"] == pytest.approx(16 * 8500 * 147_456 / GIB)


def test_a_vllm_server_takes_nothing_here():
    assert not any(
        "vLLM" in name for one in estimated(VLLM | {"vllm_mode": "server"}).moments for name in one.parts
    )


def test_a_reference_model_is_loaded_for_a_penalty_only():
    assert "reference model" not in moment(estimated(TRL | {"beta": 0.0}), TRAINING).parts
    assert moment(estimated(TRL | {"beta": 0.04}), TRAINING).parts["reference model"] == pytest.approx(
        4 * WEIGHTS / GIB
    )


def test_the_largest_moment_counts():
    estimate = estimated(VLLM, gpu_memory=80)
    assert estimate.peak.total == max(one.total for one in estimate.moments)
    assert estimate.peak.total == pytest.approx(sum(estimate.peak.parts.values()))


def test_batches_of_broken_groups_are_refused():
    with pytest.raises(
        ConfigError,
        match=r"trl.num_generations: 8 does not divide the 12 answers that are generated together",
    ):
        estimated(TRL | {"gradient_accumulation_steps": 12})
