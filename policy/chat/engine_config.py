"""How a model is loaded and asked. Imports no model library."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from envgen.frozen import Frozen

Backend = Literal["transformers", "vllm"]
Dtype = Literal["auto", "float32", "bfloat16", "float16"]


class EngineConfig(Frozen, use_attribute_docstrings=True):
    """Which engine answers for a policy, and with how much of the machine."""

    backend: Backend = "transformers"
    """What generates: Hugging Face transformers, or a vLLM server, much faster on a GPU (`make vllm`)."""
    batch_size: int = Field(default=64, ge=1, le=100_000)
    """Answers generated together: a batch of transformers, `max_num_seqs` of vLLM. Decides memory and speed,
    not answers."""
    dtype: Dtype = "auto"
    """Of weights and activations. `auto` is the type of the checkpoint, but 16 bits on vLLM if that type is
    float32."""
    data_parallel: int = Field(default=1, ge=1, le=64)
    """Copies of the model that share the conversations, each on different GPUs; vllm only; 1 to 64."""
    tensor_parallel: int = Field(default=1, ge=1, le=64)
    """GPUs over which each copy of the model is split; vllm only; 1 to 64."""
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    """Share of a GPU's memory for weights and cache, above 0 to 1; vllm only. Default: vLLM's own (0.92)."""
    max_model_len: int | None = Field(default=None, ge=16, le=100_000_000)
    """Most tokens of prompt and answer; vllm only. Default: the model's own limit; less saves memory."""

    @model_validator(mode="after")
    def _read(self) -> Self:
        """Refuse what the backend would not read."""
        for name in ("data_parallel", "tensor_parallel", "gpu_memory_utilization", "max_model_len"):
            value = getattr(self, name)
            if self.backend != "vllm" and value != type(self).model_fields[name].default:
                problem = f"{value} is read by the backend vllm only, and backend is {self.backend}"
                raise ValueError(f"{name}: {problem}; set it to vllm, or leave {name} out")
        return self

    @property
    def less_memory(self) -> str:
        """What to change where memory does not suffice."""
        if self.backend == "transformers":
            return f"lower the engine's batch_size, now {self.batch_size}"
        length = self.max_model_len or "the model's own limit"
        share = self.gpu_memory_utilization or "vLLM's own 0.92"
        ways = f"lower the engine's max_model_len, now {length}, or change its gpu_memory_utilization, now"
        return f"{ways} {share}: more of it is cache, less of it leaves room for others"

    @property
    def decides(self) -> dict[str, Any]:
        """What of it decides answers, for content keys; the rest decides speed and memory."""
        backend = {} if self.backend == "transformers" else {"backend": self.backend}
        return {"dtype": self.dtype, **backend}
