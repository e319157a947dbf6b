"""What the flow of a benchmark takes as parameters, and the benchmark that they mean."""

from typing import TYPE_CHECKING

from pydantic import ConfigDict, Field

from flows.forms import OptionsForm
from policy.chat.engine_config import EngineConfig
from policy.checkpoints import check_hub, check_model

if TYPE_CHECKING:
    from infra.analysis.benchmark.spec import BenchmarkSpec


class BenchmarkOptions(OptionsForm, EngineConfig):
    """How a model is asked; an endpoint has an engine of its own."""

    model_config = ConfigDict(title="Benchmark")
    preset: str = ""
    """Answer the validation set of this preset instead of the benchmark suite."""
    style: str | None = None
    """Prompt style, as compact, in which the tiny policy was taught; left out, the context of a checkpoint
    decides."""
    answer_tokens: int | None = Field(default=None, ge=8, le=100_000)
    """Longest answer: 8,192, or 128 in the compact style, if left out."""
    limit: int | None = Field(default=None, ge=1)
    """Largest number of instances of each group; all if left out."""


USUAL_BENCHMARK = BenchmarkOptions()


def chosen_benchmark(model: str, data: str, options: BenchmarkOptions) -> "BenchmarkSpec":
    """The benchmark that is asked for; ConfigError or ModelError says what is wrong."""
    from infra.analysis.benchmark.spec import planned  # the command line imports this file for its help

    chosen = options.model_dump()
    engine = EngineConfig(**{name: chosen[name] for name in EngineConfig.model_fields if name in chosen})
    spec = planned(
        model,
        data,
        options.preset,
        limit=options.limit,
        style=options.style,
        answer_tokens=options.answer_tokens,
        engine=engine,
    )
    if not spec.endpoint:
        check_model(spec.model)
        check_hub(spec.model)
    return spec
