"""`envwright benchmark`: a model on the benchmark suite, or on the public data set."""

from typing import Annotated

import typer
from rich.console import Console

from envgen.terminal import console, say
from flows.commands.benchmark_tables import benchmark_tables, closing_lines
from flows.commands.terminal import JSON, print_json, start_orchestrator
from flows.forms import takes_options
from flows.parameters import BenchmarkOptions, chosen_benchmark
from infra.analysis.benchmark.spec import benchmark_directory
from infra.runs.files import ROLLOUTS

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


@takes_options(BenchmarkOptions)
def benchmark(
    model: Model,
    options: BenchmarkOptions,
    data: Data = "",
    name: Annotated[str, typer.Option(help="Name of the directory under runs/benchmarks.")] = "",
    json_: JSON = False,
) -> None:
    """Valid and optimal rate of any model on the 3,150 instances of the benchmark suite, with intervals,
    beside the published rates.

    Example: `envwright benchmark tiny`
    """
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
    say(f"results: {directory / 'benchmark.json'}, answers: {directory / ROLLOUTS.name}")
