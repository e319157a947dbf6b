"""How much memory of a GPU a training run takes: a best guess from shapes and options, not a bound. Imports without torch.

Three moments, of which the largest counts: answers are generated for training, a step is trained on them, and the engine of
evaluation answers in a process of its own while nothing trains. Sizes in the estimate are GiB of one GPU.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from envgen.frozen import Frozen
from policy.activations import Precision, pass_bytes, precision_of
from policy.batches import Batches
from policy.engine_config import EngineConfig
from policy.shapes import ModelShape
from policy.sharding import Sharding, optimizer_bytes
from policy.train_spec import TrainingSettings, answer_tokens

GIB = 2**30
CONTEXT = 0.8
"""GiB of the CUDA context and the libraries' workspaces, outside of PyTorch's allocator. Assumed; it differs by card and driver."""
FRAGMENTATION = 0.05
"""Share that PyTorch's allocator holds beyond what it hands out, of what comes and goes in a step. Assumed."""
ASLEEP = 1.0
"""GiB that vLLM keeps while it sleeps: CUDA graphs and buffers outside of its pool of weights and cache. Assumed."""
VLLM_WORK = 1.5
"""GiB of vLLM's own activations, sampler and CUDA graphs while it generates, beside weights and cache. Assumed."""
TRL_SHARE = 0.3
"""Share of the GPU that vLLM takes if `vllm_gpu_memory_utilization` is left out: the default of TRL 1.16."""
VLLM_SHARE = 0.92
"""The same where `engine.gpu_memory_utilization` is left out: vLLM's own default."""
GENERATING, TRAINING, EVALUATING = "generating answers to train on", "training a step", "evaluating, in a process of its own"
LOGITS_COPIES = 3
"""float32 arrays of (batch, vocabulary) while transformers samples: logits, probabilities, and what the draw sorts out."""
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


class Moment(Frozen):
    """What lies in the memory of one GPU at one time."""

    name: str
    parts: dict[str, float]
    """What it is -> GiB."""
    sequences: int | None = None
    """Answers of full length that vLLM's cache holds at a time; None where vLLM does not generate or the card is not known."""

    @property
    def total(self) -> float:
        """GiB of all parts."""
        return sum(self.parts.values())

    @property
    def allocated(self) -> float:
        """GiB that PyTorch hands out: the total without the CUDA context and gaps between blocks, as `torch.cuda.max_memory_allocated` counts."""
        return self.total - self.parts["CUDA context"] - self.parts["fragmentation"]


class MemoryEstimate(Frozen):
    """The moments of a run on one GPU."""

    moments: tuple[Moment, ...]
    trainable: int
    """Weights that are trained: all, or those of the adapters."""
    length: int
    """Tokens of the longest prompt and answer in training."""
    batches: Batches

    @property
    def peak(self) -> Moment:
        """The moment that takes the most."""
        return max(self.moments, key=lambda moment: moment.total)


class _Run(BaseModel):
    """What the moments of training have in common; sizes in bytes."""

    model_config = ConfigDict(frozen=True)
    shape: ModelShape
    trl: dict[str, Any]
    sharding: Sharding
    precision: Precision
    batches: Batches
    length: int
    weight_bytes: int
    """Of one weight of the base model."""
    trained_bytes: int
    """Of one trained weight."""
    adapters: int | None
    """Weights of the adapters; None: all weights are trained."""

    @property
    def trainable(self) -> int:
        return self.shape.parameters if self.adapters is None else self.adapters

    @property
    def colocated(self) -> bool:
        """Whether vLLM generates on the GPUs that train."""
        return bool(self.trl.get("use_vllm", False)) and self.trl.get("vllm_mode", "colocate") == "colocate"

    def held(self) -> dict[str, float]:
        """What stays through a run: weights, and the optimizer's state, of which each of several GPUs may hold a part."""
        weights = self.shape.parameters * self.weight_bytes + (self.adapters or 0) * self.trained_bytes
        embedding = self.shape.embedding_parameters if self.adapters is None else 0
        state = optimizer_bytes(self.trl.get("optim"), self.trainable, embedding, 4 if self.sharding.deepspeed else self.trained_bytes)
        copies = 4 * self.trainable if self.sharding.deepspeed else 0
        return {"weights": weights / self.sharding.weights, "optimizer state": (state + copies) / self.sharding.optimizer}


def estimate_memory(
    shape: ModelShape,
    training: TrainingSettings,
    trl: dict[str, Any],
    engine: EngineConfig,
    prompt_tokens: int,
    evaluation_tokens: int,
    gpu_memory: float | None = None,
) -> MemoryEstimate:
    """The estimate for one of the GPUs of a run.

    `prompt_tokens` is the length of the longest prompt, `evaluation_tokens` that of the longest answer of the engine, `gpu_memory` the
    memory of the card in GiB, of which vLLM takes a share. Without it vLLM is counted with the cache that its answers need at full length.
    Raises ModelError for adapters that do not fit the shape, ConfigError for batches that hold no whole groups.
    """
    run = _run(shape, training, trl, prompt_tokens + answer_tokens(trl))
    moments = (_generating(run, gpu_memory), _training(run, gpu_memory), _evaluating(shape, engine, prompt_tokens + evaluation_tokens, gpu_memory))
    return MemoryEstimate(moments=moments, trainable=run.trainable, length=run.length, batches=run.batches)


def cache_bytes(shape: ModelShape, key_bytes: int = 2, value_bytes: int = 2) -> int:
    """Keys and values of one token in all layers: layers x kv heads x head dimension x (bytes of a key + bytes of a value)."""
    return shape.layers * shape.kv_size * (key_bytes + value_bytes)


def _run(shape: ModelShape, training: TrainingSettings, trl: dict[str, Any], length: int) -> _Run:
    sharding = Sharding.of(training)
    adapters = None if training.lora is None else shape.lora_parameters(training.lora)
    size = 2 if sharding.deepspeed else BYTES[shape.dtype if training.dtype == "auto" else training.dtype]
    return _Run(
        shape=shape,
        trl=trl,
        sharding=sharding,
        precision=precision_of(size, adapters is not None, bool(trl.get("bf16", True)), sharding.weights > 1),
        batches=Batches.of(trl, sharding.processes),
        length=length,
        weight_bytes=size,
        # PEFT holds adapters in float32 on weights of less precision.
        trained_bytes=size if adapters is None or sharding.deepspeed else 4,
        adapters=adapters,
    )


def _generating(run: _Run, gpu_memory: float | None) -> Moment:
    """Answers of a whole generation batch; gradients are not there yet."""
    parts, passing, shape, precision, answers = run.held(), dict[str, float](), run.shape, run.precision, run.batches.generated
    if run.colocated:
        share, parallel = float(run.trl.get("vllm_gpu_memory_utilization", TRL_SHARE)), int(run.trl.get("vllm_tensor_parallel_size", 1))
        vllm, sequences = _vllm(shape, share, parallel, answers * parallel, run.length, gpu_memory)
        return _moment(GENERATING, parts | vllm, passing, sequences)
    if not run.trl.get("use_vllm", False):
        parts["KV cache"] = answers * run.length * cache_bytes(shape, precision.key_bytes, precision.value_bytes)
        passing |= {
            "logits": answers * shape.vocab_size * 4 * LOGITS_COPIES,
            "weights in bfloat16": precision.cast_bytes * shape.layers * shape.layer_linear_parameters,
            "weights gathered": shape.parameters * run.weight_bytes if run.sharding.weights > 1 else 0,
        }
    return _moment(GENERATING, parts, passing)


def _training(run: _Run, gpu_memory: float | None) -> Moment:
    """Forward and backward pass of one batch of a process."""
    shape, trl, batch = run.shape, run.trl, run.batches.per_device
    checkpointing = bool(trl.get("gradient_checkpointing", True))
    scored = batch * answer_tokens(trl)
    at_worst = pass_bytes(shape, run.precision, batch * run.length, run.length, scored, checkpointing, run.adapters is None)
    parts = run.held() | {"gradients": run.trainable * run.trained_bytes / run.sharding.gradients}
    if float(trl.get("beta", 0.0)) and run.adapters is None:
        parts["reference model"] = shape.parameters * run.weight_bytes / run.sharding.weights
    if run.colocated and trl.get("vllm_enable_sleep_mode", False):
        parts["vLLM asleep"] = ASLEEP * GIB
    elif run.colocated:
        parts |= {name: size * GIB for name, size in _generating(run, gpu_memory).parts.items() if name.startswith("vLLM")}
    passing: dict[str, float] = {"activations": at_worst.activations, "weights in bfloat16": at_worst.casts, "LM head": at_worst.head}
    if run.sharding.weights > 1:
        # Of two layers at a time, and of the embedding.
        passing["weights gathered"] = 2 * (2 * shape.layer_linear_parameters + shape.embedding_parameters)
    return _moment(TRAINING, parts, passing)


def _evaluating(shape: ModelShape, engine: EngineConfig, length: int, gpu_memory: float | None) -> Moment:
    """One replica of the engine in its own process, which ends before training starts."""
    size = BYTES[shape.dtype if engine.dtype == "auto" else engine.dtype]
    if engine.backend == "vllm":
        size = 2 if engine.dtype == "auto" else size  # vLLM halves a checkpoint in float32
        share = engine.gpu_memory_utilization or VLLM_SHARE
        vllm, sequences = _vllm(shape, share, engine.tensor_parallel, engine.batch_size, length, gpu_memory, size)
        return _moment(EVALUATING, vllm, {}, sequences)
    parts: dict[str, float] = {"weights": shape.parameters * size, "KV cache": engine.batch_size * length * cache_bytes(shape, size, size)}
    return _moment(EVALUATING, parts, {"logits": engine.batch_size * shape.vocab_size * 4 * LOGITS_COPIES})


def _vllm(
    shape: ModelShape, share: float, parallel: int, slots: int, length: int, gpu_memory: float | None, size: int = 2
) -> tuple[dict[str, float], int | None]:
    """Bytes of vLLM's weights, cache and work, and how many answers of full length its cache holds on a known card; `size` bytes a weight."""
    weights, work, each = shape.parameters * size / parallel, VLLM_WORK * GIB, length * cache_bytes(shape, size, size) / parallel
    cache = slots * each if gpu_memory is None else max(0.0, share * gpu_memory * GIB - weights - work)
    return {"vLLM's weights": weights, "vLLM's KV cache": cache, "vLLM's work": work}, None if gpu_memory is None else int(cache // each)


def _moment(name: str, staying: Mapping[str, float], passing: Mapping[str, float], sequences: int | None = None) -> Moment:
    """A moment of parts in bytes, of which the passing ones leave gaps in the allocator."""
    parts = {what: size / GIB for what, size in {**staying, **passing}.items() if size}
    gaps = FRAGMENTATION * sum(passing.values()) / GIB
    return Moment(name=name, parts=parts | {"fragmentation": gaps, "CUDA context": CONTEXT}, sequences=sequences)
