"""The flow of a study: rounds of comparisons, then every final policy on a test suite that nothing in the
loop sees."""

import os
from pathlib import Path

from flows.environment import prepare

prepare()

from prefect import Flow, flow

from flows.compare import run_comparison
from flows.compare_children import share_of_cores
from flows.parameters import Jobs
from infra.analysis.study.export import RoundFolder
from infra.analysis.study.spec import load_study
from infra.config.settings import Settings
from infra.runs.lease import exclusive
from tasks.run import close_engine, log
from tasks.study import answer_test_suite, make_instances, store

DATA = "study"
"""Folder, in the directory of a study, of all that its tables and figures follow from."""


@flow(name="study", flow_run_name="study {name}")
def study(name: str, rounds: tuple[int, ...] = (), jobs: Jobs = 1) -> Path:
    """Run the rounds of a study, and return the folder of what they gave; a repeated call continues.

    Args:
        name: A shipped study (small, strong), or the path of a YAML file.
        rounds: Numbers of the rounds to run; all if left out.
        jobs: Curricula at a time; they share the cores, and each has its own of the GPUs that can be seen.
    """
    spec = load_study(name)
    chosen = spec.to_run(rounds)
    directory = Settings().run_directory(f"study-{spec.name}")
    data = directory / DATA
    os.environ.update(share_of_cores(jobs))
    with exclusive(directory):
        make_instances(data, spec)
        for one in chosen:
            _run_round(data, RoundFolder(directory, spec, one), jobs)
    return data


def _run_round(data: Path, folder: RoundFolder, jobs: int) -> None:
    one = folder.round
    wanted = folder.comparison.model_copy(update={"registration": folder.spec.registration(one)})
    log.info("round %d: %d arms, seeds %s", one.number, len(wanted.arms), ", ".join(map(str, one.seeds)))
    Flow(run_comparison, name="compare", flow_run_name=one.folder)(wanted, folder.path, jobs)
    try:
        answer_test_suite(data, folder, jobs)
    finally:
        close_engine()
    store(data, folder)
