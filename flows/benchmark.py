"""The flow of a benchmark: any model on the benchmark suite or other instances, in its own directory."""

from prefect import flow
from prefect.runtime import flow_run

from flows.parameters import USUAL_BENCHMARK, BenchmarkOptions, chosen_benchmark
from infra.analysis.benchmark.results import BenchmarkResults
from infra.analysis.benchmark.spec import BenchmarkSpec, benchmark_directory
from infra.runs.lock import exclusive
from tasks.benchmark import answer_all
from tasks.run import close_engine


def _run_name() -> str:
    """The model and the data set that this flow run is asked for."""
    parameters = flow_run.parameters
    asked = BenchmarkSpec(model=parameters["model"], data=parameters.get("data") or "")
    return f"{asked.model} on {asked.asks}"


@flow(name="benchmark", flow_run_name=_run_name)
def benchmark(
    model: str, data: str = "", options: BenchmarkOptions = USUAL_BENCHMARK, name: str = ""
) -> BenchmarkResults:
    """Answer every instance of a benchmark with a model and judge the answers: `benchmark.json`,
    `rollouts.parquet`, `breakdown.json`.

    The same model, data and options find the answers that are there.

    Args:
        model: tiny, a checkpoint directory, a hub id, or base_url#model of an OpenAI-compatible endpoint.
        data: A Parquet file of instances, JSON lines or the hub id of the public data set. Left out, the
        suite that is shipped.
        options: How the model is asked.
        name: Name of the directory under runs/benchmarks. Left out, one that tells model, data and options.
    """
    spec = chosen_benchmark(model, data, options)
    directory = benchmark_directory(spec, name)
    with exclusive(directory):
        try:
            return answer_all(directory, spec)
        finally:
            close_engine()
