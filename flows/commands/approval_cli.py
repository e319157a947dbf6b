"""`envwright approve` and `envwright reject`: the decision on a proposed config, from the shell and without a
server."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markdown import Markdown

from envgen.errors import BUGS, ConfigError
from envgen.terminal import console

if TYPE_CHECKING:
    from envgen.family import Space
    from infra.runs.decision import Decision, Verdict
    from infra.runs.run import RunRef

commands = typer.Typer()

RUN = Annotated[str, typer.Argument(help="Name of a run, or its path with a / in it.")]
COMMENT = Annotated[
    str, typer.Option(help="Why; kept with the decision, and shown with the next design question.")
]
BY = Annotated[str | None, typer.Option(help="Who decides; the user of this shell if left out.")]
YES = Annotated[bool, typer.Option("--yes", help="Do not ask whether the proposal shown is meant.")]


@commands.command(
    epilog=(
        "Example: `envwright approve tiny-checkpoint-V6W-s0 --set 6.data_ratio=0.1 --comment 'fewer of"
        " those'`"
    )
)
def approve(
    run: RUN,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Edit a number, as 4.data_ratio=0.3; may be repeated. Shares are scaled to sum to 1.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Use the environment config of this YAML file instead of the proposed one."),
    ] = None,
    comment: COMMENT = "",
    by: BY = None,
    yes: YES = False,
) -> None:
    """Approve the config that a run proposes for its next stage, as it is or edited."""
    _decide(run, "approve", comment, by, yes, config, set_ or [])


@commands.command(epilog="Example: `envwright reject tiny-checkpoint-V6W-s0 --comment 'too hard'`")
def reject(
    run: RUN,
    stop: Annotated[
        bool, typer.Option("--stop", help="End the run here instead of training another stage.")
    ] = False,
    comment: COMMENT = "",
    by: BY = None,
    yes: YES = False,
) -> None:
    """Keep the previous config instead of the one that a run proposes, or end the run."""
    _decide(run, "stop" if stop else "reject", comment, by, yes)


def _decide(
    name: str,
    verdict: "Verdict",
    comment: str,
    by: str | None,
    yes: bool,
    config: Path | None = None,
    edits: list[str] | None = None,
) -> None:
    from infra.analysis.stage_view import proposal_markdown
    from infra.config.settings import Settings
    from infra.runs.lease import exclusive, this_person
    from infra.runs.next_config import check_open, decided, last_stage, previous_config, store_decision
    from infra.runs.run import Run, RunRef
    from infra.runs.stage import Stage

    directory = Settings().find_run(name)
    run = RunRef(directory=directory, preset=Run(directory=directory).curriculum.preset)
    stage = last_stage(run)
    check_open(run, stage)
    files = run.stage(stage)
    # The digest first: what is shown after it is what is decided on, or storing is refused.
    seen, proposal = files.digest(Stage.proposal), files.proposal
    raw = _edited(run.preset.space, proposal.config.model_dump(mode="json"), config, edits or [])
    by = this_person() if by is None else by
    decision = decided(run, stage, verdict, via="shell", seen=seen, edit=raw, comment=comment, by=by)
    console.print(Markdown(proposal_markdown(run.preset.space, stage, proposal, previous_config(run, stage))))
    if not yes and not typer.confirm(f"{verdict} this proposal for stage {stage + 1}?"):
        raise typer.Exit(1)
    with exclusive(directory):
        store_decision(run, decision)
    _tell(run, decision)


def _edited(
    space: "Space", proposed: dict[str, Any], config: Path | None, edits: list[str]
) -> dict[str, Any]:
    """The raw config that the edits make of the proposed one."""
    from envgen.yaml_files import read_yaml
    from infra.config.preset import parse_override

    raw = proposed if config is None else read_yaml(config)
    if not isinstance(raw.get(space.key), dict):
        numbers = ", ".join(space.numbers)
        raise ConfigError(
            f"{config}: names no {space.key!r}; expected an environment config, {space.key} -> {numbers}"
        )
    strata = {
        str(name): dict(knobs) if isinstance(knobs, dict) else {} for name, knobs in raw[space.key].items()
    }
    for edit in edits:
        key, value = parse_override(edit)
        name, dot, knob = key.partition(".")
        if not dot or name not in strata:
            known = (
                f"a {space.noun} of {', '.join(strata)}, for example"
                f" {next(iter(strata))}.{space.numbers[-1]}=0.3"
            )
            raise ConfigError(f"--set {edit}: expected STRATUM.NUMBER=VALUE with {known}")
        strata[name][knob] = value
    return {space.key: strata}


def _tell(run: "RunRef", decision: "Decision") -> None:
    from infra.analysis.formats import changes_between
    from infra.runs.next_config import previous_config

    console.print(
        f"stage {decision.stage}: proposal {decision}", markup=False, highlight=False, soft_wrap=True
    )
    for change in decision.changes:
        console.print(f"  {change}", markup=False, highlight=False, soft_wrap=True)
    if decision.decision != "stop":
        for row in changes_between(run.preset.space, previous_config(run, decision.stage), decision.config):
            console.print(
                f"  {row.label}: " + ", ".join(knob.text for knob in row.knobs),
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
    console.print(
        _resumed(run) or "run the same command again, or retry its flow run, to go on", soft_wrap=True
    )


def _resumed(run: "RunRef") -> str:
    """Resume the flow run that is suspended for this decision, if a server is configured and has one; what
    was done, in words."""
    from flows.environment import prepare

    prepare()
    from prefect.settings import PREFECT_API_URL

    if not PREFECT_API_URL.value():
        return ""
    from flows.suspended import resume_suspended

    try:
        return resume_suspended(run.directory)
    except BUGS:
        raise
    except Exception as error:  # the decision is stored, whatever a server says
        return (
            f"Prefect at {PREFECT_API_URL.value()} was not told ({error}); resume or retry the flow run"
            " there, or run the same command again"
        )
