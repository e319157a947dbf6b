"""Close a stage: manifest, results and report."""

from prefect import task

from envgen.errors import RunDirectoryError
from infra.config.settings import run_name
from infra.results import CurriculumResults
from infra.runs.files import MANIFEST, RESULTS
from infra.runs.publishing import manifest, results_with, step_facts
from infra.runs.run import Run
from tasks.run import lost, task_options


@task(**task_options("manifest"))
def write_manifest(run: Run, stage: int) -> None:
    """Write the manifest, last of all: with it, and only with it, the stage is complete.

    One that is there is left if it tells of these very steps: a run may have been cut off between a step that
    was done again and its manifest."""
    try:
        stored = run.read(MANIFEST, stage)
    except RunDirectoryError:
        stored = {}
    if any(stored.get(name) != value for name, value in step_facts(run.folder(stage)).items()):
        run.write(MANIFEST, manifest(run, stage), stage)


@task(**task_options("results"))
def publish(run: Run, stage: int) -> CurriculumResults:
    """Rewrite results and report once a stage is complete; the results of earlier stages stay as they are."""
    from infra.report.page import write_report  # what draws is loaded once there is something to draw

    results = results_with(run, stage)
    run.write(RESULTS, results)
    try:
        write_report(run.directory)
    except Exception as error:
        lost(f"stage {stage}: report; `envwright report {run_name(run.directory)}` writes it again", error)
    return results
