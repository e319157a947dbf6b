"""What a stage leaves in the Prefect UI: tables, a plot, the proposal in words and links."""

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from infra.analysis.report.charts import rates_png
from infra.analysis.stage_view import breakdown_table, config_table, proposal_markdown
from infra.runs.next_config import previous_config
from infra.runs.results import CurriculumResults
from infra.runs.run import Run, RunRef
from tasks.artifacts import show_picture, stage_key, view


@view
def show_config(run: RunRef, stage: int) -> None:
    """The config of a stage, and what it changes against that of the stage before."""
    table = config_table(run.preset.space, run.config_of(stage), run.config_of(stage - 1) if stage else None)
    since = f", changes since stage {stage - 1}" if stage else " (the default config)"
    what = f"Environment config of stage {stage}{since}"
    create_table_artifact(table=table, key=stage_key(run, stage, "config"), description=what)


@view
def show_breakdown(run: RunRef, stage: int) -> None:
    """What the policy of a stage got right and wrong."""
    what = f"Failure breakdown after stage {stage}, on the validation set, with 95 % Wilson intervals"
    table = breakdown_table(run.preset.space, run.stage(stage).breakdown)
    create_table_artifact(table=table, key=stage_key(run, stage, "breakdown"), description=what)


@view
def show_proposal(run: RunRef, stage: int) -> None:
    """What was proposed after a stage, in words."""
    files = run.stage(stage)
    text = proposal_markdown(
        run.preset.space, stage, files.proposal, previous_config(run, stage), files.pilots.pilots
    )
    key = stage_key(run, stage, "proposal")
    create_markdown_artifact(markdown=text, key=key, description=f"Proposal after stage {stage}")


@view
def show_rates(run: RunRef, stage: int, results: CurriculumResults) -> None:
    """The rates of the base policy and after each stage, as a picture."""
    picture = rates_png(
        run.preset.space, [results.start.overall, *(one.breakdown.overall for one in results.stages)]
    )
    show_picture(stage_key(run, stage, "rates"), picture, f"Valid and optimal rate up to stage {stage}")


@view
def show_links(run: RunRef, stage: int, addresses: dict[str, str]) -> None:
    """Where to read on: addresses by name, and the report."""
    places = {**addresses, "report": str(run.path(Run.report).resolve())}
    lines = [
        f"- [{name}]({at})" if at.startswith("http") else f"- {name}: `{at}`" for name, at in places.items()
    ]
    key = stage_key(run, stage, "links")
    create_markdown_artifact(markdown="\n".join(lines), key=key, description=f"Links of stage {stage}")
