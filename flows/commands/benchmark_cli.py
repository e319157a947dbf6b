"""`envwright benchmark`: a model on the benchmark suite, or on the public data set."""

from typing import Annotated

import typer
from rich.console import Console

from envgen.terminal import console, say
from flows.commands.terminal import JSON, print_json, start_orchestrator

commands = typer.Typer()

Model = Annotated[
    str,
    typer.Argument(
        help="tiny, a checkpoint directory, a hub id, or base_url#model of an OpenAI-compatible endpoint."
    ),
]
Data = Annotated[
    str,
    typer.Option(
        help=(
            "Instances other than the shipped suite: .parquet, .jsonl of rows as the public data set has, or"
            " its hub id."
        )
    ),
]
OtherPreset = Annotated[str | None, typer.Option(help="Answer the validation set of this preset instead.")]
Style = Annotated[
    str | None,
    typer.Option(help="Prompt style, as compact; without it the context of a checkpoint decides."),
]
Tokens = Annotated[int | None, typer.Option(help="Longest answer: 8,192, or 128 in the compact style.")]
Runner = Annotated[
    str | None,
    typer.Option(help="What runs the model: transformers, the default, or vllm, much faster on a GPU."),
]
Precision = Annotated[
    str | None, typer.Option(help="Of weights and activations: auto, float32, bfloat16 or float16.")
]
BatchSize = Annotated[
    int | None, typer.Option(help="Prompts generated together, 64; not used for an endpoint.")
]
DataParallel = Annotated[
    int | None, typer.Option(help="Copies of the model, each on different GPUs; vllm only; 1.")
]
TensorParallel = Annotated[
    int | None, typer.Option(help="GPUs over which each copy of the model is split; vllm only; 1.")
]
GpuShare = Annotated[
    float | None, typer.Option(help="Share of a GPU's memory for weights and cache; vllm only; 0.92.")
]
MaxModelLen = Annotated[
    int | None, typer.Option(help="Tokens of prompt and answer at most; vllm only. Less saves memory.")
]
Limit = Annotated[
    int | None,
    typer.Option(help="Largest number of instances of each group."),
]


@commands.command(epilog="Example: `envwright benchmark tiny`")
def benchmark(
    model: Model,
    data: Data = "",
    preset: OtherPreset = None,
    style: Style = None,
    answer_tokens: Tokens = None,
    backend: Runner = None,
    dtype: Precision = None,
    batch_size: BatchSize = None,
    data_parallel: DataParallel = None,
    tensor_parallel: TensorParallel = None,
    gpu_memory_utilization: GpuShare = None,
    max_model_len: MaxModelLen = None,
    limit: Limit = None,
    name: Annotated[str, typer.Option(help="Name of the directory under runs/benchmarks.")] = "",
    json_: JSON = False,
) -> None:
    """Valid and optimal rate of any model on the 3,150 instances of the benchmark suite, with intervals,
    beside the published rates."""
    from flows.benchmark_parameters import BenchmarkOptions, chosen_benchmark
    from flows.commands.benchmark_tables import benchmark_tables, closing_lines
    from flows.parameters import options_of
    from infra.analysis.benchmark.spec import benchmark_directory
    from infra.runs.stage import Evaluation

    given = {field: value for field, value in locals().items() if field in BenchmarkOptions.model_fields}
    options = options_of(BenchmarkOptions, given)
    spec = chosen_benchmark(model, data, options)
    directory = benchmark_directory(spec, name)
    say(f"{spec.model} on {spec.asks}: {spec.style} prompts, answers of up to {spec.answer_tokens:,} tokens")
    start_orchestrator()
    from flows.benchmark import benchmark as benchmark_flow

    results = benchmark_flow(model, data, options, name)
    if json_:
        return print_json(results)
    for table in benchmark_tables(results):
        Console(width=max(console.width, 79)).print(table, "")
    for line in closing_lines(results):
        say(line)
    say(f"results: {directory / 'benchmark.json'}, answers: {directory / Evaluation.rollouts.name}")
