"""Close a stage: manifest, results and report."""

from prefect import task

from infra.analysis.report.build import write_report
from infra.runs.publishing import manifest, results_with
from infra.runs.results import CurriculumResults
from infra.runs.run import Run, RunRef
from infra.runs.stage import Stage
from infra.runs.steps import StepRecord
from tasks.run import task_options


@task(**task_options("manifest"))
def write_manifest(run: RunRef, stage: int, steps: list[StepRecord]) -> None:
    """Write the manifest, last of all: with it, and only with it, the stage is complete."""
    files = run.stage(stage)
    if not (files.has(Stage.manifest) and all(step.reused for step in steps)):
        files.write(Stage.manifest, manifest(run, stage, steps))


@task(**task_options("results"))
def publish(run: RunRef, stage: int) -> CurriculumResults:
    """Rewrite results and report once a stage is complete: what was published of those before it stands."""
    results = results_with(run, stage)
    run.write(Run.results, results)
    write_report(run.directory)
    return results
