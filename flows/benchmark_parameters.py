"""What the flow of a benchmark takes as parameters, and the benchmark that they mean."""

from pydantic import ConfigDict, Field

from flows.parameters import OptionsForm
from infra.analysis.benchmark.spec import ANSWER_TOKENS, BenchmarkSpec, planned
from policy.chat.engine_config import EngineConfig
from policy.checkpoints import check_hub, check_model


class BenchmarkOptions(OptionsForm, EngineConfig):
    """How a model is asked, and with what engine, which is not read for an endpoint."""

    model_config = ConfigDict(title="Benchmark")
    preset: str = ""
    """Answer the validation set of this preset instead of the benchmark suite."""
    style: str | None = None
    """One of the family's prompt styles, as compact, in which the tiny policy was taught. Left out, the
    context of a checkpoint decides."""
    answer_tokens: int = Field(default=ANSWER_TOKENS, ge=8, le=100_000)
    """Longest answer in tokens. Left out, the style decides."""
    limit: int | None = Field(default=None, ge=1)
    """Largest number of instances of each group; all if left out."""


USUAL_BENCHMARK = BenchmarkOptions()


def chosen_benchmark(model: str, data: str, options: BenchmarkOptions) -> BenchmarkSpec:
    """The benchmark that is asked for; ConfigError or ModelError says what is wrong."""
    engine = EngineConfig(**options.model_dump(include=set(EngineConfig.model_fields)))
    spec = planned(
        model,
        data,
        options.preset,
        limit=options.limit,
        style=options.style,
        answer_tokens=options.answer_tokens if "answer_tokens" in options.model_fields_set else None,
        engine=engine,
    )
    if not spec.endpoint:
        check_model(spec.model)
        check_hub(spec.model)
    return spec
