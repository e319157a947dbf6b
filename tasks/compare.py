"""Run the curricula of a comparison side by side, and publish what they have shown so far."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from pathlib import Path
from typing import Any

from prefect import task

from envgen.errors import RunDirectoryError
from envgen.files import write_json
from infra.comparison.gather import gather
from infra.comparison.page import PAGE, conclusions, write_page
from infra.comparison.results import RESULTS_FILE, ComparisonResults, read_comparison_results
from infra.comparison.spec import COPY, Child, ComparisonSpec
from infra.config.settings import run_name
from tasks.record import logged
from tasks.run import log, task_options

MOST_AT_A_TIME = 64
"""Curricula that are awaited at a time where workers decide how many run."""


def run_each(
    todo: list[Child],
    jobs: int | None,
    start: Callable[[Child], None],
    ended: Callable[[Child, BaseException | None, str], None],
    stop: Callable[[], None],
) -> None:
    """Run `start` for every child, `jobs` at a time, each in its own thread; an interruption calls `stop`.
    `ended` is called in this thread, with the error and the progress ("2 of 6")."""
    with ThreadPoolExecutor(max_workers=jobs or MOST_AT_A_TIME) as pool:
        # Each thread gets its own context, so that its log lines belong to this flow run.
        futures = {pool.submit(copy_context().run, start, child): child for child in todo}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                ended(futures[future], future.exception(), f"{number} of {len(todo)}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise


@task(**task_options("open-record"))
def open_record(directory: Path, spec: ComparisonSpec) -> str | None:
    """The MLflow run of the comparison, made with MLflow's database if new; None without MLflow."""
    ids = logged("comparison", lambda mlflow: _run_in(mlflow, directory, spec))
    return ids.run if ids else None


@task(**task_options("publish-comparison"))
def publish_comparison(
    directory: Path, spec: ComparisonSpec, failures: dict[str, str], last: bool = False
) -> ComparisonResults:
    """Rewrite `comparison_results.json` and page from all finished curricula; with `last` log to MLflow."""
    results = gather(directory, spec, failures)
    write_json(directory / RESULTS_FILE, results)
    write_page(directory, results)
    if last:
        again = "run the same command again to log it"
        logged("comparison", lambda mlflow: _log(mlflow, directory, spec, results), again)
    return results


def _run_in(mlflow: Any, directory: Path, spec: ComparisonSpec) -> Any:
    return mlflow.start_comparison(directory, run_name(directory), spec.base.name)


def _log(mlflow: Any, directory: Path, spec: ComparisonSpec, results: ComparisonResults) -> None:
    ids, files = _run_in(mlflow, directory, spec), [directory / name for name in (COPY, RESULTS_FILE, PAGE)]
    mlflow.log_comparison(ids, conclusions(results)[0], files)
    if server := mlflow.server_address():
        log.info("chart in MLflow: %s/%s", server, mlflow.view_address(ids.experiment))


def earlier_failures(directory: Path) -> dict[str, str]:
    """Why curricula failed in an earlier call, by name."""
    try:
        children = read_comparison_results(directory).children
    except RunDirectoryError:
        return {}
    return {child.name: child.reason for child in children if child.state == "failed"}
