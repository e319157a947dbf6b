"""`envwright benchmark`: a model on the benchmark suite, or on the public data set."""

from typing import Annotated

import typer
from rich.console import Console

from envgen.mapf.prompts import PromptStyle
from envgen.terminal import console, say
from flows.commands.terminal import show_log

commands = typer.Typer()

MODEL = "tiny, a checkpoint directory, a hub id, or base_url#model of an OpenAI-compatible endpoint."
DATA = (
    "Instances other than the shipped suite: .parquet, .jsonl of rows sample_id, num_agents, text, or the hub"
    " id of the public data set."
)


@commands.command(epilog="Example: `envwright benchmark tiny`")
def benchmark(
    model: Annotated[str, typer.Argument(help=MODEL)],
    data: Annotated[str, typer.Option(help=DATA)] = "",
    preset: Annotated[
        str | None, typer.Option(help="Answer the validation set of this preset instead.")
    ] = None,
    style: Annotated[
        PromptStyle | None, typer.Option(help="Prompt style; without it the context of a checkpoint decides.")
    ] = None,
    answer_tokens: Annotated[
        int | None, typer.Option(help="Longest answer: 8,192, or 128 in the compact style.")
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(help="What runs the model: transformers, the default, or vllm, much faster on a GPU."),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Of weights and activations: auto, float32, bfloat16 or float16.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Prompts generated together, 64; not used for an endpoint.")
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(help="Processes that share the prompts, each with the model on GPUs of its own; 1."),
    ] = None,
    tensor_parallel: Annotated[
        int | None, typer.Option(help="GPUs over which each replica splits the model; vllm only; 1.")
    ] = None,
    gpu_memory_utilization: Annotated[
        float | None, typer.Option(help="Share of a GPU's memory for weights and cache; vllm only; 0.92.")
    ] = None,
    max_model_len: Annotated[
        int | None, typer.Option(help="Tokens of prompt and answer at most; vllm only. Less saves memory.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Answer at most so many instances of each wait subset, number of agents and map size."
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the directory under runs/benchmarks.")] = "",
) -> None:
    """Valid and optimal rate of any model on the 3,150 instances of the benchmark suite, with intervals,
    beside the published rates."""
    from flows.commands.benchmark_tables import benchmark_tables, closing_lines
    from flows.parameters import benchmark_options, chosen_benchmark
    from infra.analysis.benchmark.spec import benchmark_directory
    from infra.runs.stage import Evaluation

    engine = {
        "backend": backend,
        "dtype": dtype,
        "batch_size": batch_size,
        "replicas": replicas,
        "tensor_parallel": tensor_parallel,
    }
    memory = {"gpu_memory_utilization": gpu_memory_utilization, "max_model_len": max_model_len}
    options = benchmark_options(
        {"preset": preset, "style": style, "answer_tokens": answer_tokens, "limit": limit, **engine, **memory}
    )
    spec = chosen_benchmark(model, data, options)
    directory = benchmark_directory(spec, name)
    show_log()
    say(f"{spec.model} on {spec.asks}: {spec.style} prompts, answers of up to {spec.answer_tokens:,} tokens")
    say("starting the orchestrator ...")
    from flows.benchmark import benchmark as benchmark_flow

    results = benchmark_flow(model, data, options, name)
    for table in benchmark_tables(results):
        Console(width=max(console.width, 79)).print(table, "")
    for line in closing_lines(results):
        say(line)
    say(
        f"results: {directory / 'benchmark.json'}, figure: {directory / 'benchmark.png'}, answers:"
        f" {directory / Evaluation.rollouts.name}"
    )
