"""What a run leaves in the Prefect UI: its result so far, with links."""

from infra.analysis.stage_view import result_markdown
from infra.runs.results import CurriculumResults
from infra.runs.run import Run, RunRef
from tasks.artifacts import keep_markdown, run_key, view


@view
def show_result(
    run: RunRef, results: CurriculumResults, addresses: dict[str, str], waiting: str = ""
) -> None:
    """The result so far, on the page of the curriculum itself: one artifact, written again after each
    stage."""
    places = {"report": str(run.path(Run.report).resolve()), **addresses}
    text = result_markdown(run.preset.space, results, run.preset.stages, places, waiting)
    so_far = " so far" if len(results.stages) < run.preset.stages else ""
    keep_markdown(run_key(run, "result"), text, f"{run.name}: result{so_far}")
