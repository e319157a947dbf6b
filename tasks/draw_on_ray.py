"""Draw the training data of a stage on a Ray cluster, one Prefect task run per stratum.

A task run gets and returns paths: it reads the validation set, draws its stratum and leaves a Parquet shard.
So Ray workers on other hosts must see the runs folder under the same path.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from prefect import task
from prefect.task_runners import TaskRunner

from envgen.config import EnvConfig
from envgen.dataset import read_dataset, write_dataset
from envgen.errors import ConfigError, DataError
from envgen.extras import install
from envgen.families import FamilySpec
from envgen.family import Source
from envgen.files import file_digest
from envgen.frozen import Frozen
from infra.runs.run import Run, RunRef
from tasks.run import log, task_options


class StratumRequest(Frozen):
    """One stratum to draw."""

    family: FamilySpec
    stratum: str
    knobs: dict[str, float]
    count: int
    source: Source
    validation: Path
    """Data set whose instances must not be drawn, besides those that the family reserves."""
    style: str
    shard: Path
    """File to write."""


class Shard(Frozen):
    """What was drawn of one stratum."""

    path: Path
    digest: str
    report: dict[str, Any]
    line: str
    """The report for the log; empty if nothing was asked for."""


def draw_on_ray(run: RunRef, stage: int, config: EnvConfig, workers: int) -> tuple[list[Any], dict[str, Any]]:
    """What `envgen.sampling.sample` draws for a stage, drawn by Ray workers; the first failure decides the
    error.

    `workers`, at least 1, is the number of cores of a Ray that is started here; a cluster at `RAY_ADDRESS`
    has its own. Raises ConfigError without prefect-ray, SamplingError when a stratum holds too few instances,
    and DataError when a worker does not see the runs folder.
    """
    preset = run.preset
    preset.task.check(config, preset.instances)
    shards = (run.stage(stage).work / "shards").resolve()
    try:
        with ray_runner(workers) as runner:
            futures = {
                name: runner.submit(
                    draw_stratum, {"request": _request(run, stage, config, name, count, shards)}
                )
                for name, count in config.counts(preset.instances).items()
            }
            drawn = {name: future.result() for name, future in futures.items()}
        instances = [instance for shard in drawn.values() for instance in _read(shard)]
    finally:
        shutil.rmtree(shards, ignore_errors=True)
    for shard in drawn.values():
        if shard.line:
            log.info("stage %d: %s", stage, shard.line)
    return instances, {config.key: {name: shard.report for name, shard in drawn.items()}}


@task(**task_options("draw"), task_run_name="draw {request.stratum}")
def draw_stratum(request: StratumRequest) -> Shard:
    """Draw one stratum and leave it as a Parquet shard."""
    if not request.validation.is_file():
        raise DataError(
            f"{request.validation}: not there for this worker; ENVWRIGHT_RUNS has to be a folder that all "
            "workers see under the same path, or draw on this host without ENVWRIGHT_RAY"
        )
    family = request.family.load()
    held_out = family.reserved().union(one.id for one in read_dataset(request.validation))
    drawn = family.draw(request.stratum, request.knobs, request.count, request.source, held_out)
    origin = {**request.source._asdict(), "report": drawn.report}
    write_dataset(request.shard, drawn.instances, request.style, origin, request.family)
    digest, line = file_digest(request.shard), drawn.line if drawn.instances else ""
    return Shard(path=request.shard, digest=digest, report=drawn.report, line=line)


def ray_runner(workers: int) -> TaskRunner[Any]:
    """Prefect's task runner for Ray; ConfigError if prefect-ray is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        from prefect_ray import RayTaskRunner  # pyright: ignore[reportMissingImports]  # an extra
    except ImportError:
        raise ConfigError(
            f"ENVWRIGHT_RAY: prefect-ray is not installed; run {install('ray')}, or"
            " unset ENVWRIGHT_RAY to draw on this host"
        ) from None
    # Ray refuses to be told the size of a cluster that is there already.
    there = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": workers, "include_dashboard": False}
    return RayTaskRunner(init_kwargs=there)


def _request(
    run: RunRef, stage: int, config: EnvConfig, name: str, count: int, shards: Path
) -> StratumRequest:
    preset = run.preset
    return StratumRequest(
        family=preset.family,
        stratum=name,
        knobs=config.strata[name].knobs,
        count=count,
        source=Source(preset.stage_seed(stage), stage),
        validation=run.path(Run.validation).resolve(),
        style=preset.prompt_style,
        shard=shards / f"{name}.parquet",
    )


def _read(shard: Shard) -> list[Any]:
    if file_digest(shard.path) != shard.digest:
        raise DataError(
            f"{shard.path}: is not what the worker wrote; is the runs folder the same for all workers?"
        )
    return read_dataset(shard.path)
