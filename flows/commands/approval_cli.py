"""`envwright approve` and `envwright reject`: decide on a proposed config in a shell."""

from typing import Annotated

import typer
from rich.markdown import Markdown

from envgen.errors import ConfigError
from envgen.terminal import console, say
from flows.commands.terminal import RUN
from flows.environment import prepare
from infra.config.dotted import parse_override, set_field
from infra.config.settings import Settings
from infra.results import Verdict
from infra.runs.files import PROPOSAL
from infra.runs.lock import exclusive, this_person
from infra.runs.next_config import SUSPENDED, check_open, decided, last_stage, previous_config, store_decision
from infra.runs.run import Run

COMMENT = Annotated[str, typer.Option(help="Why; kept, and read by an engineer whose context has S.")]
YES = Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")]


def approve(
    run: RUN,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Edit a number, as 4.data_ratio=0.3; may be repeated. Shares are scaled."),
    ] = None,
    comment: COMMENT = "",
    yes: YES = False,
) -> None:
    """Approve the config that a run proposes for its next stage, as it is or edited.

    Example: `envwright approve tiny-checkpoint-V6W-s0 --set 6.data_ratio=0.1`
    """
    _decide(run, "approve", comment, yes, set_ or [])


def reject(
    run: RUN,
    stop: Annotated[bool, typer.Option("--stop", help="End the run here, without another stage.")] = False,
    comment: COMMENT = "",
    yes: YES = False,
) -> None:
    """Keep the previous config instead of the one that a run proposes, or end the run.

    Example: `envwright reject tiny-checkpoint-V6W-s0 --comment 'too hard'`
    """
    _decide(run, "stop" if stop else "reject", comment, yes, [])


def _decide(name: str, verdict: Verdict, comment: str, yes: bool, edits: list[str]) -> None:
    from infra.markdown import proposal_markdown

    directory = Settings().find_run(name)
    run = Run(directory=directory)
    stage = last_stage(run)
    check_open(run, stage)
    # The digest first: what is shown after it is what is decided on, or storing is refused.
    seen, proposal = run.digest(PROPOSAL, stage), run.read(PROPOSAL, stage)
    edit = proposal.config.model_dump(mode="json")
    for text in edits:
        number, value = parse_override(text)
        if "." not in number:
            raise ConfigError(f"--set {text}: expected STRATUM.NUMBER=VALUE, for example 4.data_ratio=0.3")
        set_field(edit[run.preset.space.key], number, value)
    who = {"comment": comment, "by": this_person()}
    decision = decided(run, stage, verdict, via="shell", seen=seen, edit=edit, **who)
    if verdict == "approve":  # edits count
        proposal = proposal.model_copy(update={"config": decision.config})
    previous = previous_config(run, stage)
    console.print(Markdown(proposal_markdown(run.preset.space, stage, proposal, previous)))
    if not yes and not typer.confirm(f"{verdict} this proposal for stage {stage + 1} (--yes does not ask)?"):
        raise typer.Exit(1)
    with exclusive(directory):
        store_decision(run, decision)
    say(f"stage {stage}: proposal {decision}")
    for change in decision.changes:
        say(f"  {change}")
    if not (run.directory / SUSPENDED).exists():
        return say("run the same command again, or retry its flow run, to continue")
    prepare()
    from flows.approval import resume

    say(resume(run, decision))
