"""What a stage leaves in the Prefect UI: tables, a plot, the proposal in words and links."""

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from envgen.config import EnvConfig
from infra.report.charts import rates_png
from infra.runs.results import CurriculumResults
from infra.stage_view import breakdown_table, config_table, proposal_markdown
from tasks.approval import previous_config
from tasks.artifacts import show_picture, stage_key, view
from tasks.design import read_proposal
from tasks.gate import config_of
from tasks.learn import read_breakdown
from tasks.pilot import read_pilots
from tasks.run import RunRef


@view
def show_config(run: RunRef, stage: int, config: EnvConfig) -> None:
    """The config of a stage, and what it changes against that of the stage before."""
    previous = config_of(run, stage - 1) if stage else None
    what = f"Environment config of stage {stage}" + (f", changes since stage {stage - 1}" if stage else " (the default config)")
    create_table_artifact(table=config_table(config, previous), key=stage_key(run, stage, "config"), description=what)


@view
def show_breakdown(run: RunRef, stage: int) -> None:
    """What the policy of a stage got right and wrong."""
    table = breakdown_table(read_breakdown(run.stage(stage)))
    what = f"Failure breakdown after stage {stage}, on the validation set, with 95 % Wilson intervals"
    create_table_artifact(table=table, key=stage_key(run, stage, "breakdown"), description=what)


@view
def show_proposal(run: RunRef, stage: int) -> None:
    """What was proposed after a stage, in words."""
    text = proposal_markdown(stage, read_proposal(run, stage), previous_config(run, stage), read_pilots(run, stage).pilots)
    create_markdown_artifact(markdown=text, key=stage_key(run, stage, "proposal"), description=f"Proposal after stage {stage}")


@view
def show_rates(run: RunRef, stage: int, results: CurriculumResults) -> None:
    """The rates of the start policy and after each stage, as a picture."""
    picture = rates_png([results.start.overall, *(one.breakdown.overall for one in results.stages)])
    show_picture(stage_key(run, stage, "rates"), picture, f"Valid and optimal rate up to stage {stage}")


@view
def show_links(run: RunRef, stage: int, addresses: dict[str, str]) -> None:
    """Where to read on: addresses by name, and the report."""
    places = {**addresses, "report": str((run.directory / "report.html").resolve())}
    text = "\n".join(f"- [{name}]({place})" if place.startswith("http") else f"- {name}: `{place}`" for name, place in places.items())
    create_markdown_artifact(markdown=text, key=stage_key(run, stage, "links"), description=f"Links of stage {stage}")
