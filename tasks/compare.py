"""Open the record of a comparison, and publish what its curricula have shown so far."""

from pathlib import Path

from prefect import task

from envgen.breakdown import Rate
from envgen.errors import RunDirectoryError
from envgen.files import write_json
from infra.analysis.comparison.page import PAGE, conclusion, write_page
from infra.analysis.gather import gather
from infra.analysis.results import RATES, RESULTS_FILE, ComparisonResults, read_comparison_results
from infra.analysis.spec import ComparisonSpec
from infra.analysis.statistics import Effect
from infra.mlflow_log import (
    Ids,
    Points,
    log_comparison,
    preset_params,
    server_address,
    start_comparison,
    view_address,
)
from infra.run_status import run_name
from tasks.record import logged
from tasks.run import log, task_options

_OF_AN_ARM = {"preset.stages", "preset.engineer.name", "preset.engineer.variant"}
"""Parameters that are no property of a comparison: they differ among its arms, or grow with a later call."""


@task(**task_options("open-record"))
def open_record(directory: Path, spec: ComparisonSpec) -> str | None:
    """The MLflow run of the comparison, made if it is new; None if MLflow cannot be reached. It also makes
    MLflow's database."""
    ids = logged("comparison", lambda: _open(directory, spec))
    return ids.run if ids else None


@task(**task_options("publish-comparison"))
def publish_comparison(
    directory: Path, spec: ComparisonSpec, failures: dict[str, str], last: bool = False
) -> ComparisonResults:
    """Rewrite `comparison_results.json` and what people read from all finished curricula; with `last` the
    record in MLflow too."""
    results = gather(directory, spec, failures)
    write_json(directory / RESULTS_FILE, results)
    write_page(directory, results)
    if last:
        logged("comparison", lambda: _log(directory, spec, results), "run the same command again to log it")
    return results


def _log(directory: Path, spec: ComparisonSpec, results: ComparisonResults) -> None:
    ids = _open(directory, spec)
    log_comparison(ids, metrics(results), conclusion(results), [directory / RESULTS_FILE, directory / PAGE])
    if server := server_address():
        log.info("chart in MLflow: %s/%s", server, view_address(ids.experiment))


def _open(directory: Path, spec: ComparisonSpec) -> Ids:
    params = preset_params(spec.preset.model_copy(update={"description": ""}))
    shared = {name: value for name, value in params.items() if name not in _OF_AN_ARM}
    return start_comparison(directory, run_name(directory), spec.preset.name, shared)


def metrics(results: ComparisonResults) -> Points:
    """What MLflow can chart: the curves, whose step is how many stages were trained, then final rates and
    differences with the ends of their intervals. Means over the finished seeds."""
    points: Points = {}
    for arm in results.arms:
        label = arm.label.replace("+", ".")  # MLflow's names have no plus sign
        for name in RATES:
            curve, final = getattr(arm, f"{name}_curve"), getattr(arm, name)
            points[f"{name}/{label}"] = [(trained, rate.value) for trained, rate in enumerate(curve)]
            if final:
                points |= _interval(f"final_{name}", label, final)
            for base, effects in results.differences(name).items():
                if arm.label in effects:
                    points |= _interval(f"{name}_to_{base}", label, effects[arm.label])
    return points


def _interval(name: str, label: str, value: Rate | Effect) -> Points:
    """A number and the ends of its 95 % interval."""
    values = {"": value.value, "_low": value.low, "_high": value.high}
    return {f"{name}{end}/{label}": [(0, value)] for end, value in values.items()}


def earlier_failures(directory: Path) -> dict[str, str]:
    """Why curricula failed in an earlier call, by name."""
    try:
        return {child.name: child.reason for child in read_comparison_results(directory).failed}
    except RunDirectoryError:
        return {}
