"""Ask a person about a proposed config: the form that a suspended run shows, and what the run does with the
answer.

The proposal is stored before it is shown, and the answer before it is used. The form has no default decision:
Prefect gives a form's defaults to a run that crashed while it was suspended and is then retried, and nobody
has seen those."""

from typing import Any

from prefect import suspend_flow_run
from prefect.context import FlowRunContext
from prefect.exceptions import Pause
from prefect.input import RunInput
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from engineer.proposal import shortened
from envgen.config import SHARE
from envgen.errors import ConfigError, SamplingError
from envgen.family import Knob, Space
from envgen.files import write_json
from flows.suspended import WAITING, asked_before, tell_what_it_waits_for
from infra.analysis.formats import config_changes
from infra.analysis.stage_view import proposal_markdown
from infra.runs.decision import MAX_COMMENT, Verdict
from infra.runs.next_config import decided, previous_config, store_decision
from infra.runs.run import RunRef
from infra.runs.stage import Stage
from tasks.artifacts import show
from tasks.run import log

ASKED_AT_MOST = 50
"""Times that one run asks about one proposal: after each crash while it waited, and after each edit that is
not possible."""
LONGEST_CHANGE = 300
"""Characters of the change, and of the reason, that the first field of the form repeats."""


def waits_for(run: RunRef, stage: int) -> str:
    """What a run that waits for a decision on a stage's proposal needs from a person."""
    return (
        f"approve, edit or reject the config proposed for stage {stage + 1}: press Resume, or call"
        f" `envwright approve {run.argument}` or `envwright reject {run.argument}`"
    )


def ask(run: RunRef, stage: int) -> None:
    """Suspend this flow run with a form until the decision on a stage's proposal is stored.

    A run with a deployment is suspended, and runs anew once the form is submitted; without one nothing is
    done."""
    context = FlowRunContext.get()
    flow_run = context.flow_run if context else None
    if flow_run is None or flow_run.deployment_id is None or flow_run.parent_task_run_id is not None:
        log.info(
            "stage %d: the proposal waits for a decision: envwright approve %s, or envwright reject %s",
            stage,
            run.argument,
            run.argument,
        )
        return
    seen, problem = run.stage(stage).digest(Stage.proposal), ""
    waiting = {"flow_run": str(flow_run.id), "stage": stage, "proposal": seen}
    if again := asked_before(run.directory, waiting):
        # Prefect logs that it suspends before it looks whether there is an answer.
        log.info("stage %d: going on; if the form was submitted, its answer is read now", stage)
    write_json(run.directory / WAITING, waiting)
    for attempt in range(ASKED_AT_MOST):
        form = approval_form(run, stage, problem)
        if attempt or not again:
            log.info(
                "stage %d: waiting for a decision on the proposal, in the form of this run or with envwright"
                " approve %s",
                stage,
                run.argument,
            )
        try:
            answer: Any = suspend_flow_run(
                wait_for_input=form, key=f"stage-{stage + 1}-{seen[:12]}-{attempt}"
            )
        except ValidationError:
            # The run was crashed, retried or resumed without an answer: this key is used up and nothing was
            # decided.
            log.warning("stage %d: the run went on without a decision; asking again", stage)
            continue
        except Pause:  # how Prefect ends the process of a suspended run
            show(tell_what_it_waits_for, flow_run.id, f"waits for you to {waits_for(run, stage)}")
            raise
        if already := run.stage(stage).decision:
            log.warning(
                "stage %d: the form says %s, but the proposal was %s before", stage, answer.decision, already
            )
            return
        try:
            edit = _raw(run.preset.space, answer.config)
            told = {"comment": answer.comment, "by": answer.by}
            decision = decided(run, stage, answer.decision, via="form", seen=seen, edit=edit, **told)
            store_decision(run, decision)
            if decision.edited:
                edits = config_changes(run.preset.space, run.stage(stage).proposal.config, decision.config)
                log.info("stage %d: edited: %s", stage, edits)
            return
        except (ConfigError, SamplingError) as error:
            problem = str(error)
            log.warning("stage %d: the edited config is not possible: %s", stage, problem)
    raise ConfigError(
        f"stage {stage}: asked {ASKED_AT_MOST} times without a decision; decide with envwright approve"
        f" {run.argument}, then retry this run"
    )


def approval_form(run: RunRef, stage: int, problem: str = "") -> type[RunInput]:
    """The form for the proposal of a stage: the decision, without default, and the proposed config to edit.
    `problem` says why it is shown again."""
    proposal, previous = run.stage(stage).proposal, previous_config(run, stage)
    space = run.preset.space
    config = _config_form(space)
    given = {_field(name): part.model_dump() for name, part in proposal.config.strata.items()}
    form = create_model(
        "Approval",
        __base__=RunInput,
        decision=(
            Verdict,
            Field(
                title="Decision",
                # The dialog opens scrolled down to this field: what is decided on has to stand here too.
                description=(
                    "approve: use the config below, edits count. reject: keep the previous config. stop: end"
                    f" the run here. {_in_short(run, stage)}"
                ),
            ),
        ),
        config=(
            config,
            Field(
                default=config.model_validate(given),
                title=f"Config of stage {stage + 1}",
                description="Shares are scaled to sum to 1.",
            ),
        ),
        comment=(
            str,
            Field(
                default="",
                max_length=MAX_COMMENT,
                title="Comment",
                description="Kept with the decision; the next design question shows it.",
            ),
        ),
        by=(str, Field(default="", max_length=200, title="Your name", description="Kept with the decision.")),
    )
    text = proposal_markdown(space, stage, proposal, previous)
    return form.with_initial_data(
        description=f"**The edited config is not possible:** {problem}\n\n{text}" if problem else text
    )


def _in_short(run: RunRef, stage: int) -> str:
    """Return the change and the reason of a proposal in a few lines of plain text."""
    proposal, space = run.stage(stage).proposal, run.preset.space
    change = config_changes(space, previous_config(run, stage), proposal.config)
    parts = {
        "It changes": shortened(change, LONGEST_CHANGE),
        "Reason given": shortened(proposal.rationale or proposal.fallback or "none", LONGEST_CHANGE),
    }
    return " ".join(f"{name}: {text.rstrip('.')}." for name, text in parts.items())


def _config_form(space: Space) -> type[BaseModel]:
    """The config as nested boxes, one a stratum; no number has a default, so that a partial answer is
    refused."""
    share = (float, Field(ge=0, le=1, title=SHARE, description="Share of the instances."))
    strict = ConfigDict(extra="forbid")

    def box(name: str) -> tuple[type[BaseModel], Any]:
        knobs: dict[str, Any] = {knob.name: _number(knob) for knob in space[name].knobs}
        form = create_model(f"Form_{name}", __config__=strict, **{SHARE: share, **knobs})
        return form, Field(title=space.label(name))

    fields: dict[str, Any] = {_field(name): box(name) for name in space.names}
    return create_model("ConfigForm", __config__=strict, **fields)


def _number(knob: Knob) -> tuple[type, Any]:
    description = f"{knob.means[0].upper()}{knob.means[1:]}; {knob.low:g} to {knob.high:g}."
    return float, Field(ge=knob.low, le=knob.high, title=knob.name, description=description)


def _field(name: str) -> str:
    return f"stratum_{name}"


def _raw(space: Space, config: BaseModel) -> dict[str, Any]:
    """The config of a submitted form as engineers write one."""
    return {space.key: {name.removeprefix("stratum_"): knobs for name, knobs in config.model_dump().items()}}
