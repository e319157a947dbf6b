"""The flow of a comparison: one shared stage 0, then a curriculum for every engineer variant and seed, each a
run of a deployment or a child process."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context
from pathlib import Path
from typing import TypeVar

from prefect import flow
from prefect.runtime import flow_run

from envgen.errors import ChildError
from flows.compare_processes import Processes, shares_of_gpus
from flows.compare_runs import FlowRuns, pool_for
from flows.parameters import USUAL_COMPARISON, ComparisonOptions, Jobs, PresetChoice, chosen_comparison
from infra.analysis.gather import finished
from infra.analysis.results import ComparisonResults
from infra.analysis.spec import Child, ComparisonSpec, open_comparison
from infra.config.settings import Settings
from infra.lineage.store import is_logged
from infra.runs.lock import exclusive
from tasks.compare import earlier_failures, open_record, publish_comparison
from tasks.run import Pace, log

T = TypeVar("T")
MOST_AT_A_TIME = 64


def _run_name() -> str:
    """The name of the comparison that this flow run is asked for."""
    parameters = flow_run.parameters
    return parameters["name"] or f"compare {parameters['preset']}"


@flow(name="compare", flow_run_name=_run_name)
def compare(
    preset: PresetChoice,
    name: str = "",
    options: ComparisonOptions = USUAL_COMPARISON,
    jobs: Jobs | None = None,
) -> ComparisonResults:
    """Run every engineer variant with every seed from one shared stage 0, and sum up what they show.

    A repeated call with the same name continues; engineers, seeds and stages may be added. A curriculum that
    fails costs no other one: the rest is finished and published, then ChildError is raised.

    Args:
        preset: A shipped preset, or the path of a YAML file on the machine that runs it.
        name: Name of the comparison; an existing one is continued. Left out, it is made from the preset.
        options: Engineers, seeds, and what all curricula change in the preset.
        jobs: Curricula at a time. Left out: as many as the workers take where they are runs of a deployment,
            else one. In processes of this machine they share the cores, and each gets different GPUs while
            there are enough.
    """
    spec = chosen_comparison(preset, name, options)
    directory, pool = Settings().run_directory(spec.name), pool_for(spec.preset.name)
    if pool is None:
        jobs = jobs or 1  # otherwise the workers decide
    shares = shares_of_gpus(spec.preset, jobs or 1) if pool is None else None
    with exclusive(directory):
        whole = open_comparison(directory, spec)
        record = open_record(directory, whole)
        above = {"ENVWRIGHT_PARENT_RUN": record} if record else {}
        where = Processes(directory, jobs or 1, shares, above) if shares else pool or ""
        names = {child.name for child in spec.children}
        wanted = [child for child in whole.children if child.name in names]
        results = _run_all(directory, whole, wanted, FlowRuns(directory, where, above), jobs)
    _complain(results, wanted)
    return results


def _complain(results: ComparisonResults, wanted: list[Child]) -> None:
    """ChildError if curricula of this call failed; failures of an earlier call, for other engineers or
    seeds, are only marked in the table."""
    failed = {child.name for child in results.failed}
    if names := [child.name for child in wanted if child.name in failed]:
        raise ChildError(
            f"{len(names)} of {len(wanted)} curricula failed: {', '.join(names)}. Run the same command again"
            " to continue them"
        )


def _run_all(
    directory: Path, spec: ComparisonSpec, wanted: list[Child], runs: FlowRuns, jobs: int | None
) -> ComparisonResults:
    """Run what is left, `jobs` at a time, or as many as the workers take."""
    todo = _todo(directory, wanted)
    how = f"; {min(jobs, max(1, len(todo)))} at a time" if jobs else ""
    log.info("%d curricula, %d of them finished already%s", len(wanted), len(wanted) - len(todo), how)
    without_root = _run_roots(directory, spec, todo, runs, jobs)
    names = {child.name for child in todo}
    failures = {name: why for name, why in earlier_failures(directory).items() if name not in names}
    failures |= without_root

    def ended(child: Child, error: BaseException | None, stands: str) -> None:
        if error is None:
            log.info("%s: finished; %s", child.title, stands)
        else:
            failures[child.name] = str(error) or type(error).__name__
            log.error("%s: failed, %s: %s", child.title, stands, failures[child.name])
        publish_comparison(directory, spec, failures)

    startable = [child for child in todo if child.name not in without_root]
    run_each(startable, jobs, runs.run, ended, runs.stop)
    return publish_comparison(directory, spec, failures, last=True)


def _run_roots(
    directory: Path, spec: ComparisonSpec, todo: list[Child], runs: FlowRuns, jobs: int | None
) -> dict[str, str]:
    """Train every shared stage 0 that a new curriculum starts from; curriculum -> why its stage 0 failed."""
    new = [child for child in todo if not (directory / child.name).exists()]
    needed, reasons = {child.root for child in new}, dict[str, str]()
    roots = [
        root
        for root in spec.roots
        if root.name in needed and not finished(directory / root.name, root.preset)
    ]

    def ended(root: Child, error: BaseException | None, stands: str) -> None:
        if error is not None:
            reasons[root.name] = f"{root.title} failed: {str(error) or type(error).__name__}"
            log.error("%s, %s", reasons[root.name], stands)

    run_each(roots, jobs, runs.run, ended, runs.stop)
    return {child.name: reasons[child.root] for child in new if child.root in reasons}


def _todo(directory: Path, wanted: list[Child]) -> list[Child]:
    """The children that are not finished, and those whose record was lost: their steps are done, so that they
    only record."""
    return [
        child
        for child in wanted
        if not finished(directory / child.name, child.preset) or not is_logged(directory / child.name)
    ]


def run_each(
    todo: list[T],
    jobs: int | None,
    start: Callable[[T], None],
    ended: Callable[[T, BaseException | None, str], None],
    stop: Callable[[], None],
) -> None:
    """Start every child, `jobs` at a time, each in a thread that lives as long as it; tell of each end in
    this thread, with how many are over and, if `jobs` is known, the time left."""
    pace = Pace(len(todo), min(jobs, len(todo)) if jobs else None)

    def timed(child: T) -> float:
        begun = time.monotonic()
        start(child)
        return time.monotonic() - begun

    with ThreadPoolExecutor(max_workers=jobs or MOST_AT_A_TIME) as pool:
        # Each thread gets its own context, so that its log lines belong to this flow run.
        futures = {pool.submit(copy_context().run, timed, child): child for child in todo}
        try:
            for future in as_completed(futures):
                error = future.exception()
                ended(futures[future], error, pace.over(None if error else future.result()))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise
