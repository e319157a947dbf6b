"""The flow of a benchmark: any model on any data set, in a directory of its own."""

from flows.environment import prepare

prepare()

from prefect import flow
from prefect.runtime import flow_run

from envgen.breakdown import Breakdown
from flows.parameters import USUAL_BENCHMARK, BenchmarkOptions
from infra.lease import exclusive
from infra.settings import Settings
from tasks.artifacts import show_table
from tasks.benchmark import BenchmarkSpec, answer_all, benchmark_name
from tasks.run import close_engine


def _run_name() -> str:
    """The model and the data set that this flow run is asked for."""
    return f"{flow_run.parameters['model']} on {flow_run.parameters['data'] or 'the validation set'}"


@flow(name="benchmark", flow_run_name=_run_name)
def benchmark(model: str, data: str = "", options: BenchmarkOptions = USUAL_BENCHMARK) -> Breakdown:
    """Answer every instance of a data set with a model and judge the answers: `rollouts.parquet` and `breakdown.json`.

    The same model, data and options find the answers that are there.

    Args:
        model: tiny, a checkpoint directory, a hub id, or base_url#model of an OpenAI-compatible endpoint.
        data: A Parquet file of instances. Left out, the validation set of the preset in the options is answered.
        options: How the model is asked.
    """
    spec = BenchmarkSpec(model=model, data=data or None, **dict(options))
    directory = Settings().runs / "benchmarks" / benchmark_name(spec)
    with exclusive(directory):
        try:
            breakdown = answer_all(directory, spec)
        finally:
            close_engine()
    show_table(directory.name, breakdown)
    return breakdown
