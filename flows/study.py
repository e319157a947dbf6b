"""The flow of a study: rounds of comparisons, then every final policy on a test suite that nothing in the
loop sees."""

import os
import time
from pathlib import Path

from flows.environment import prepare

prepare()

from prefect import Flow, flow

from flows.compare import run_comparison
from flows.compare_children import share_of_cores
from flows.parameters import Jobs
from infra.analysis.study.export import RoundFolder, take_over
from infra.analysis.study.records import stored_seeds
from infra.analysis.study.spec import load_study
from infra.config.settings import Settings
from infra.runs.lease import exclusive
from tasks.run import Pace, close_engine, log
from tasks.study import answer_test_suite, make_instances, store

DATA = "study"
"""Folder, in the directory of a study, of all that its tables and figures follow from."""


@flow(name="study", flow_run_name="study {name}")
def study(
    name: str,
    rounds: tuple[int, ...] = (),
    seeds: tuple[int, ...] = (),
    stored: Path | None = None,
    jobs: Jobs = 1,
) -> Path:
    """Run the rounds of a study, and return the folder of what they gave; a repeated call continues.

    What is complete is stored after every `jobs` seeds. Seeds that are stored are not run again.

    Args:
        name: A shipped study (small, strong, hour), or the path of a YAML file.
        rounds: Numbers of the rounds to run; all if left out.
        seeds: Seeds to run; all of these rounds if left out.
        stored: Folder of what another call has stored, as on another machine; its seeds are taken over.
        jobs: Curricula at a time; they share the cores, and each has its own of the GPUs that can be seen.
    """
    spec = load_study(name)
    chosen = spec.to_run(rounds, seeds)
    directory = Settings().run_directory(f"study-{spec.name}")
    data = directory / DATA
    os.environ.update(share_of_cores(jobs))
    with exclusive(directory):
        make_instances(data, spec)
        todo = []
        for one, wanted in chosen:
            if stored:
                take_over(data, spec, one, stored)
            left = [seed for seed in wanted if seed not in stored_seeds(data, one.number)]
            log.info("round %d: %d of its seeds are stored", one.number, len(wanted) - len(left))
            todo += [(one, tuple(left[first : first + jobs])) for first in range(0, len(left), jobs)]
        pace = Pace(sum(len(together) for _, together in todo))
        for one, together in todo:
            begun = time.monotonic()
            _run_seeds(data, RoundFolder(directory, spec, one, together), jobs)
            stands = pace.over(time.monotonic() - begun, len(together))
            log.info("round %d: seeds %s are stored; %s", one.number, ", ".join(map(str, together)), stands)
    return data


def _run_seeds(data: Path, folder: RoundFolder, jobs: int) -> None:
    one = folder.round
    wanted = folder.comparison.model_copy(update={"registration": folder.spec.registration(one)})
    log.info("round %d: %d arms, seeds %s", one.number, len(wanted.arms), ", ".join(map(str, folder.seeds)))
    Flow(run_comparison, name="compare", flow_run_name=one.folder)(wanted, folder.path, jobs)
    try:
        answer_test_suite(data, folder, jobs)
    finally:
        close_engine()
    store(data, folder)
