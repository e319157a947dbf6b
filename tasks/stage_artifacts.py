"""What a curriculum and its stages leave in the Prefect UI: results as tables, proposals in words, links."""

from prefect.artifacts import create_markdown_artifact

from infra.analysis.stage_view import proposal_markdown, result_markdown, stage_markdown
from infra.runs.next_config import previous_config
from infra.runs.results import CurriculumResults
from infra.runs.run import Run, RunRef
from tasks.artifacts import keep_markdown, run_key, stage_key, view


@view
def show_stage(run: RunRef, stage: int) -> None:
    """What a stage was trained on, and what its policy gets right and wrong."""
    before = run.config_of(stage - 1) if stage else None
    text = stage_markdown(run.preset.space, stage, run.config_of(stage), before, run.stage(stage).breakdown)
    what = f"Stage {stage}: what it was trained on, and what goes wrong"
    create_markdown_artifact(markdown=text, key=stage_key(run, stage, "result"), description=what)


@view
def show_proposal(run: RunRef, stage: int) -> None:
    """What was proposed after a stage, in words."""
    files = run.stage(stage)
    text = proposal_markdown(run.preset.space, stage, files.proposal, previous_config(run, stage))
    key = stage_key(run, stage, "proposal")
    what = f"Stage {stage}: the config proposed for the next one, and why"
    create_markdown_artifact(markdown=text, key=key, description=what)


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
