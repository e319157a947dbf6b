"""Answer a benchmark with any model: a checkpoint, a hub id, or an endpoint."""

from pathlib import Path
from typing import Any

from envgen.files import digest, file_digest, write_json
from envgen.suites import Item, benchmark_of
from infra.benchmark.results import RESULTS_FILE, BenchmarkResults, count
from infra.benchmark.sources import limited, read_source
from infra.benchmark.spec import BenchmarkSpec
from infra.config.versions import code_version
from infra.runs.files import BREAKDOWN, PARTIAL_ROLLOUTS, ROLLOUTS
from infra.runs.lock import exclusive
from infra.runs.run import Run
from infra.runs.steps import policy_identity, run_step
from policy.chat.contract import Sampling
from policy.chat.endpoint import read_key
from policy.checkpoints import resolve_model
from policy.rollouts import breakdown_of
from tasks.run import answering, close_engine, log, rollouts_of


def answer_all(directory: Path, spec: BenchmarkSpec) -> BenchmarkResults:
    """Write the rollouts of a model on a benchmark, unless they are there; count breakdown and scores."""
    with exclusive(directory):
        try:
            return _answered(directory, spec)
        finally:
            close_engine()


def _answered(directory: Path, spec: BenchmarkSpec) -> BenchmarkResults:
    environment, endpoint, items = spec.environment.load(), spec.endpoint, _items(spec)
    source = spec.model if endpoint else resolve_model(spec.model)
    identity, data = source if endpoint else policy_identity(source), _data_key(spec, items)
    decides = {**spec.decides, "model": identity, "data": data}
    run = Run(directory=directory)

    def body() -> dict[str, Any]:
        instances, log_path = [item.instance for item in items], run.log("engine")
        if endpoint:
            from policy.chat.openai_model import OpenAIModel  # takes two seconds to import

            model, asked = OpenAIModel(endpoint, read_key(endpoint)), {"model": identity}
        else:
            model = answering(source, environment, instances, spec.style, spec.engine, log_path, {})
            asked = {"model": identity, **spec.engine.decides}
        partial = directory / PARTIAL_ROLLOUTS
        sampling = Sampling(max_tokens=spec.answer_tokens)
        rollouts = rollouts_of(model, asked, partial, environment, instances, spec.style, sampling)
        run.write(ROLLOUTS, rollouts, None, spec.style, spec.environment)
        run.write(BREAKDOWN, breakdown_of(environment, run.read(ROLLOUTS)))
        return {"code": code_version()}

    files = (ROLLOUTS.name, BREAKDOWN.name)
    record = run_step(directory, "benchmark", decides, files, body, unfinished=PARTIAL_ROLLOUTS)
    results = BenchmarkResults(
        spec=spec,
        model_identity=identity,
        data_digest=data,
        environment=spec.environment,
        code=record.facts.get("code", code_version()),
        seconds=record.seconds,
        scores=count(items, run.read(ROLLOUTS), environment.space.categories),
    )
    write_json(directory / RESULTS_FILE, results)
    overall, note = results.overall, " (found)" if record.reused else ""
    log.info("%s: valid %s, optimal %s%s", spec.model, overall.valid_rate, overall.optimal_rate, note)
    return results


def _items(spec: BenchmarkSpec) -> list[Item]:
    """The instances that a spec asks, in order."""
    items = read_source(benchmark_of(spec.environment.load()), spec.data)
    return items if spec.limit is None else limited(items, spec.limit)


def _data_key(spec: BenchmarkSpec, items: list[Item]) -> str:
    """What decides which instances are asked."""
    environment = spec.environment.load()
    if not spec.data:
        return benchmark_of(environment).digest
    if spec.data.endswith(".parquet"):
        return file_digest(Path(spec.data))
    return digest([environment.prompt(item.instance, spec.style) for item in items])
