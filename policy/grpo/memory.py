"""The parts of a GPU's memory that follow from sizes and options by formula. Imports without torch.

Three moments: answers are generated for training, a step is trained on them, and the engine of evaluation
answers in a process of its own while nothing trains. What is not counted is in `LEFT_OUT`, so that the sums
are lower bounds. Sizes in the estimate are GiB of one GPU.
"""

from typing import Any

from envgen.frozen import Frozen
from policy.chat.engine_config import EngineConfig
from policy.grpo.batches import Batches
from policy.grpo.launch import Sharding
from policy.grpo.model_size import ModelSize
from policy.grpo.train_spec import TrainingSettings, answer_tokens

GIB = 2**30
LEFT_OUT = (
    "activations, copies that autocast makes of weights, weights that are gathered from other GPUs, buffers "
    "of vLLM, the CUDA context, fragmentation"
)
TRL_SHARE = 0.3
"""Share of the GPU that vLLM takes if `vllm_gpu_memory_utilization` is left out: the default of TRL 1.16."""
VLLM_SHARE = 0.92
"""The same where `engine.gpu_memory_utilization` is left out: vLLM's own default."""
GENERATING = "generating answers to train on"
TRAINING = "training a step"
EVALUATING = "evaluating, in a process of its own"
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_QUANTISED = 1 + 4 / 256
"""Bytes of an 8-bit value with its share of a float32 scale for 256 of them (2110.02861)."""
_STATE = {
    "adamw_8bit": 2 * _QUANTISED,
    "adamw_bnb_8bit": 2 * _QUANTISED,
    "paged_adamw_8bit": 2 * _QUANTISED,
    "lion_8bit": _QUANTISED,
    "paged_lion_8bit": _QUANTISED,
    "paged_adamw_32bit": 8,
    "lion_32bit": 4,
    "paged_lion_32bit": 4,
    "rmsprop": 4,
    "adafactor": 0,
    "sgd": 0,
}
"""Optimizer -> bytes of its state for each weight; adafactor's row and column sums are too few to count."""


class Moment(Frozen):
    """What lies in the memory of one GPU at one time."""

    name: str
    parts: dict[str, float]
    """What it is -> GiB."""
    sequences: int | None = None
    """Answers of full length that vLLM's cache holds at a time, at most; None where vLLM does not generate or
    the card is not known."""

    @property
    def total(self) -> float:
        """GiB of all parts."""
        return sum(self.parts.values())


class MemoryEstimate(Frozen):
    """The moments of a run on one GPU."""

    moments: tuple[Moment, ...]

    @property
    def peak(self) -> Moment:
        """The moment that takes the most."""
        return max(self.moments, key=lambda moment: moment.total)


def estimate_memory(
    size: ModelSize,
    training: TrainingSettings,
    trl: dict[str, Any],
    engine: EngineConfig,
    prompt_tokens: int,
    evaluation_tokens: int,
    gpu_memory: float | None = None,
) -> MemoryEstimate:
    """The estimate for one of the GPUs of a run.

    `prompt_tokens` is the length of the longest prompt, `evaluation_tokens` that of the longest answer of the
    engine, `gpu_memory` the memory of the card in GiB, of which vLLM takes a share. Without it vLLM is
    counted with the cache that its answers need at full length. Raises ConfigError for batches that hold no
    whole groups.
    """
    sharding = Sharding.of(training)
    answers = Batches.of(trl, sharding.processes).generated
    length = prompt_tokens + answer_tokens(trl)
    weight_bytes = BYTES[size.dtype if training.dtype == "auto" else training.dtype]
    # PEFT holds adapters in float32 on weights of less precision.
    trained_bytes = weight_bytes if size.adapters is None else 4
    if sharding.deepspeed:
        weight_bytes = trained_bytes = 2
    held = _held(size, trl, sharding, weight_bytes, trained_bytes)
    generating, awake, sequences = held, dict[str, float](), None
    if not trl.get("use_vllm", False):
        generating = held | _answering(size, answers, length, 2 if trl.get("bf16", True) else weight_bytes)
    elif trl.get("vllm_mode", "colocate") == "colocate":
        share = float(trl.get("vllm_gpu_memory_utilization", TRL_SHARE))
        parallel = int(trl.get("vllm_tensor_parallel_size", 1))
        vllm, sequences = _vllm(size, share, parallel, answers * parallel, length, gpu_memory)
        generating = held | vllm
        awake = {} if trl.get("vllm_enable_sleep_mode", False) else vllm
    training_parts = held | {"gradients": size.trained * trained_bytes / sharding.gradients} | awake
    if float(trl.get("beta", 0.0)) and size.adapters is None:
        training_parts["reference model"] = size.parameters * weight_bytes / sharding.weights
    return MemoryEstimate(
        moments=(
            _moment(GENERATING, generating, sequences),
            _moment(TRAINING, training_parts),
            _evaluating(size, engine, prompt_tokens + evaluation_tokens, gpu_memory),
        )
    )


def _held(
    size: ModelSize, trl: dict[str, Any], sharding: Sharding, weight_bytes: int, trained_bytes: int
) -> dict[str, float]:
    """Bytes that stay through a run: weights and optimizer state, split where several GPUs hold parts."""
    weights = size.parameters * weight_bytes + (size.adapters or 0) * trained_bytes
    embedding = size.embedding if size.adapters is None else 0
    state_bytes, copies = (4, 4 * size.trained) if sharding.deepspeed else (trained_bytes, 0)
    state = optimizer_bytes(trl.get("optim"), size.trained, embedding, state_bytes)
    return {"weights": weights / sharding.weights, "optimizer state": (state + copies) / sharding.optimizer}


def optimizer_bytes(optimizer: str | None, trained: int, embedding: int, value_bytes: int) -> float:
    """Bytes of the state of an optimizer for `trained` weights, of which `embedding` are an input embedding.

    AdamW keeps two values for each weight in the precision of the weight (`value_bytes`); what is not known
    is counted as AdamW. For bitsandbytes' 8-bit optimizers transformers' trainer leaves the embedding at 32
    bits.
    """
    name = optimizer or "adamw_torch_fused"
    each = _STATE.get(name, 2 * value_bytes)
    if name not in _STATE or not name.endswith("_8bit"):
        return trained * each
    return (trained - embedding) * each + embedding * (8 if "adamw" in name else 4)


def _answering(size: ModelSize, answers: int, length: int, value_bytes: int) -> dict[str, float]:
    """Bytes of transformers' cache, and of the float32 logits of one token of each answer."""
    return {"KV cache": answers * length * size.cached * value_bytes, "logits": 4 * answers * size.vocab_size}


def _evaluating(size: ModelSize, engine: EngineConfig, length: int, gpu_memory: float | None) -> Moment:
    """One replica of the engine in its own process, which ends before training starts."""
    each = BYTES[size.dtype if engine.dtype == "auto" else engine.dtype]
    if engine.backend != "vllm":
        cache = _answering(size, engine.batch_size, length, each)
        return _moment(EVALUATING, {"weights": size.parameters * each, **cache})
    each = 2 if engine.dtype == "auto" else each  # vLLM halves a checkpoint in float32
    share = engine.gpu_memory_utilization or VLLM_SHARE
    vllm, sequences = _vllm(size, share, engine.tensor_parallel, engine.batch_size, length, gpu_memory, each)
    return _moment(EVALUATING, vllm, sequences)


def _vllm(
    size: ModelSize,
    share: float,
    parallel: int,
    slots: int,
    length: int,
    gpu_memory: float | None,
    value_bytes: int = 2,
) -> tuple[dict[str, float], int | None]:
    """Bytes of vLLM's weights and cache, and how many full-length answers its cache holds on a known card."""
    weights, each = size.parameters * value_bytes / parallel, length * size.cached * value_bytes / parallel
    if gpu_memory is None:
        return {"vLLM's weights": weights, "vLLM's KV cache": slots * each}, None
    cache = max(0.0, share * gpu_memory * GIB - weights)
    return {"vLLM's weights": weights, "vLLM's KV cache": cache}, int(cache // each)


def _moment(name: str, parts: dict[str, float], sequences: int | None = None) -> Moment:
    """A moment of parts in bytes."""
    in_gib = {what: amount / GIB for what, amount in parts.items() if amount}
    return Moment(name=name, parts=in_gib, sequences=sequences)
