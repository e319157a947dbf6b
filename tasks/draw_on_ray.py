"""Draw the training data of a stage on a Ray cluster, one Prefect task run per map size.

A task run gets and returns paths: it reads the validation set, draws its map size and leaves a Parquet shard. So Ray
workers on other hosts must see the runs folder under the same path.
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
from envgen.files import file_digest
from envgen.frozen import Frozen
from envgen.mapf.benchmark import suite_identities
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.sampler import Quota, SamplingReport, SizeReport, checked_quotas, sample_size
from infra.runs.run import Run, RunRef
from tasks.run import log, task_options


class SizeRequest(Frozen):
    """One map size to draw."""

    quota: Quota
    wait_ratio: float
    seed: int
    stage: int
    validation: Path
    """Data set whose boards must not be drawn, besides those of the benchmark suite."""
    style: PromptStyle
    shard: Path
    """File to write."""


class Shard(Frozen):
    """What was drawn for one map size."""

    path: Path
    digest: str
    report: SizeReport


def draw_on_ray(run: RunRef, stage: int, config: EnvConfig, workers: int) -> tuple[list[Instance], SamplingReport]:
    """What `envgen.mapf.sampler.sample` draws for a stage, bit for bit, drawn by Ray workers; the first map size that fails decides the error.

    `workers`, at least 1, is the number of cores of a Ray that is started here; a cluster at `RAY_ADDRESS` has its own.
    Raises ConfigError without prefect-ray, SamplingError when a class holds too few boards, and DataError when a worker
    does not see the runs folder.
    """
    todo = checked_quotas(config, run.preset.instances, run.preset.agents)
    shards = (run.stage(stage).work / "shards").resolve()
    try:
        with ray_runner(workers) as runner:
            futures = [runner.submit(draw_size, {"request": _request(run, stage, config, quota, shards)}) for quota in todo]
            drawn = {quota.size: future.result() for quota, future in zip(todo, futures, strict=True)}
        instances = [instance for shard in drawn.values() for instance in _read(shard)]
    finally:
        shutil.rmtree(shards, ignore_errors=True)
    for size, shard in drawn.items():
        if shard.report.instances:
            log.info("stage %d: %s", stage, shard.report.line(size))
    return instances, SamplingReport(sizes={size: shard.report for size, shard in drawn.items()})


@task(**task_options("draw"), task_run_name="draw {request.quota.size}x{request.quota.size}")
def draw_size(request: SizeRequest) -> Shard:
    """Draw one map size and leave it as a Parquet shard."""
    if not request.validation.is_file():
        raise DataError(
            f"{request.validation}: not there for this worker; ENVWRIGHT_RUNS has to be a folder that all workers see under the same path, "
            f"or draw on this host without ENVWRIGHT_RAY"
        )
    held_out = suite_identities(request.quota.agents).union(instance.problem.id for instance in read_dataset(request.validation))
    instances, report = sample_size(request.quota, request.wait_ratio, seed=request.seed, stage=request.stage, held_out=held_out)
    write_dataset(request.shard, instances, request.style, {"seed": request.seed, "stage": request.stage, "report": report})
    return Shard(path=request.shard, digest=file_digest(request.shard), report=report)


def ray_runner(workers: int) -> TaskRunner[Any]:
    """Prefect's task runner for Ray; ConfigError if prefect-ray is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        from prefect_ray import RayTaskRunner  # pyright: ignore[reportMissingImports]  # an extra
    except ImportError:
        raise ConfigError(
            "ENVWRIGHT_RAY: prefect-ray is not installed; run pip install -c constraints.txt -e '.[ray]', or unset ENVWRIGHT_RAY to draw on this host"
        ) from None
    # Ray refuses to be told the size of a cluster that is there already.
    return RayTaskRunner(init_kwargs={} if os.environ.get("RAY_ADDRESS") else {"num_cpus": workers, "include_dashboard": False})


def _request(run: RunRef, stage: int, config: EnvConfig, quota: Quota, shards: Path) -> SizeRequest:
    return SizeRequest(
        quota=quota,
        wait_ratio=config.sizes[quota.size].wait_ratio,
        seed=run.preset.stage_seed(stage),
        stage=stage,
        validation=run.path(Run.validation).resolve(),
        style=run.preset.prompt_style,
        shard=shards / f"{quota.size}x{quota.size}.parquet",
    )


def _read(shard: Shard) -> list[Instance]:
    if file_digest(shard.path) != shard.digest:
        raise DataError(f"{shard.path}: is not what the worker wrote; is the runs folder the same for all workers?")
    return read_dataset(shard.path)
