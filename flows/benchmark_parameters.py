"""What the flow of a benchmark takes as parameters, and the benchmark that they mean."""

from pydantic import ConfigDict, Field, ValidationError

from envgen.errors import ConfigError, describe_validation_error
from flows.parameters import OptionsForm
from infra.analysis.benchmark.spec import ANSWER_TOKENS, BenchmarkSpec, planned
from policy.chat.engine_config import Backend, Dtype, EngineConfig
from policy.checkpoints import check_hub, check_model


class BenchmarkOptions(OptionsForm):
    """How a model is asked."""

    model_config = ConfigDict(title="Benchmark")
    preset: str = Field(
        default="",
        title="Preset",
        description="Answer the validation set of this preset instead of the benchmark suite.",
    )
    style: str | None = Field(
        default=None,
        title="Prompt style",
        description=(
            "One of the family's, as compact, in which the tiny policy was taught. Left out, the context of a"
            " checkpoint decides."
        ),
    )
    answer_tokens: int = Field(
        default=ANSWER_TOKENS,
        ge=8,
        le=100_000,
        title="Answer tokens",
        description="Longest answer. Left out, the style decides.",
    )
    backend: Backend = Field(
        default="transformers",
        title="Backend",
        description="What runs the model; vLLM is much faster on a GPU. Not for an endpoint.",
    )
    dtype: Dtype = Field(default="auto", title="Precision", description="Of weights and activations.")
    batch_size: int = Field(
        default=64,
        ge=1,
        le=10_000,
        title="Batch size",
        description="Prompts generated together; not used for an endpoint.",
    )
    data_parallel: int = Field(
        default=1,
        ge=1,
        le=64,
        title="Data parallel",
        description="Copies of the model, each on different GPUs; vllm only.",
    )
    tensor_parallel: int = Field(
        default=1,
        ge=1,
        le=64,
        title="Tensor parallel",
        description="GPUs over which each copy of the model is split; vllm only.",
    )
    gpu_memory_utilization: float | None = Field(
        default=None,
        gt=0,
        le=1,
        title="Share of GPU memory",
        description="For weights and cache; vllm only, which takes 0.92 if left out.",
    )
    max_model_len: int | None = Field(
        default=None,
        ge=16,
        title="Longest prompt and answer",
        description="In tokens; vllm only. Less than the model's limit saves memory.",
    )
    limit: int | None = Field(
        default=None,
        ge=1,
        title="Limit",
        description="Largest number of instances of each group; all if left out.",
    )


USUAL_BENCHMARK = BenchmarkOptions()


def chosen_benchmark(model: str, data: str, options: BenchmarkOptions) -> BenchmarkSpec:
    """The benchmark that is asked for; ConfigError or ModelError says what is wrong."""
    given = options.model_fields_set
    try:
        engine = EngineConfig.model_validate(
            {name: value for name, value in options.model_dump().items() if name in EngineConfig.model_fields}
        )
    except ValidationError as error:
        raise ConfigError(describe_validation_error(error, "options")) from None
    spec = planned(
        model,
        data,
        options.preset,
        limit=options.limit,
        style=options.style,
        answer_tokens=options.answer_tokens if "answer_tokens" in given else None,
        engine=engine,
    )
    if not spec.endpoint:
        check_model(spec.model)
        check_hub(spec.model)
    return spec
