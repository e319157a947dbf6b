"""Ask a person about a proposed config: the form of a suspended flow run, and what follows from the answer.
The form has no default decision: Prefect gives defaults to a run that crashed while it was suspended."""

import json
from itertools import count
from typing import Any
from uuid import UUID

from prefect import resume_flow_run, suspend_flow_run
from prefect.context import FlowRunContext
from prefect.exceptions import NotPausedError, ObjectNotFound
from prefect.input import RunInput
from prefect.settings import PREFECT_API_URL
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from envgen.config import SHARE, EnvConfig
from envgen.errors import ConfigError, SamplingError
from envgen.files import write_json
from envgen.space import Knob, Space
from infra.config.settings import run_name, without_password
from infra.results import MAX_COMMENT, Decision, Verdict
from infra.runs.files import PROPOSAL
from infra.runs.next_config import SUSPENDED, decided, previous_config, store_decision
from infra.runs.run import Run
from tasks.run import log

_PREFIX = "stratum_"
"""Beginning of the fields of a form, as a stratum may have a number for its name."""


def waits_for(run: Run, stage: int) -> str:
    """Return what a person has to do for a run that waits for a decision on a stage's proposal."""
    name = run_name(run.directory)
    ways = f"press Resume in the Prefect UI, or call `envwright approve {name}` or `envwright reject {name}`"
    return f"approve, edit or reject the config proposed for stage {stage + 1}: {ways}"


def ask(run: Run, stage: int) -> None:
    """Suspend this flow run with a form until the decision on a stage's proposal is stored. One without a
    deployment cannot be suspended; it ends, and the decision is made in a shell."""
    context = FlowRunContext.get()
    flow_run = context.flow_run if context else None
    log.info("stage %d: waiting for a decision: %s", stage, waits_for(run, stage))
    if flow_run is None or flow_run.deployment_id is None or flow_run.parent_task_run_id is not None:
        return
    write_json(run.directory / SUSPENDED, {"flow_run": str(flow_run.id)})
    proposal, problem = run.digest(PROPOSAL, stage), ""
    for attempt in count():  # again after a crash while it waited, or an impossible edit
        form, key = approval_form(run, stage, problem), f"stage-{stage + 1}-{proposal[:12]}-{attempt}"
        try:
            answer: Any = suspend_flow_run(wait_for_input=form, key=key)
        except ValidationError:  # crashed, retried or resumed without an answer: the key is used up
            log.warning("stage %d: the run was continued without a decision; asking again", stage)
            continue
        except RuntimeError as error:
            raise ConfigError(f"stage {stage}: {error}; press Retry, and the run asks again") from None
        try:
            edit = {run.preset.space.key: _strata(answer.config)}
            who = {"comment": answer.comment, "by": answer.by}
            verdict = decided(run, stage, answer.decision, via="form", seen=proposal, edit=edit, **who)
            return store_decision(run, verdict)
        except (ConfigError, SamplingError) as error:
            problem = str(error)
            log.warning("stage %d: the edited config is not possible: %s", stage, problem)


def resume(run: Run, decision: Decision) -> str:
    """Submit the form of the flow run that is suspended for a decision; return the outcome in words."""
    address = PREFECT_API_URL.value()
    if not address:
        return "PREFECT_API_URL: is not set; resume the flow run at its server, or run the same command again"
    try:
        flow_run = UUID(json.loads((run.directory / SUSPENDED).read_text())["flow_run"])
        answer = decision.model_dump(mode="json", include={"decision", "comment", "by"})
        resume_flow_run(flow_run, run_input={**answer, "config": _form_values(decision.config)})
        return "the suspended flow run continues"
    except (NotPausedError, ObjectNotFound):
        return "its flow run is not suspended; retry it, or run the same command again"
    except Exception as error:  # the decision is stored, whatever the server answers
        reason = f"{type(error).__name__}: {error}"
        return f"{without_password(address)} was not told ({reason}); resume or retry the flow run there"


def approval_form(run: Run, stage: int, problem: str) -> type[RunInput]:
    """Return the form for the proposal of a stage: the decision, and the proposed config to edit. `problem`:
    why it is shown again."""
    from infra.markdown import proposal_markdown

    proposal, previous, space = run.read(PROPOSAL, stage), previous_config(run, stage), run.preset.space
    config = _config_form(space)
    meanings = "approve: use the config below, edits count. reject: keep the previous config."
    decision = Field(title="Decision", description=f"{meanings} stop: end the run here.")
    written = config.model_validate(_form_values(proposal.config))
    title, explained = f"Config of stage {stage + 1}", "Shares are scaled to sum to 1."
    proposed = Field(default=written, title=title, description=explained)
    explained = "Kept; an engineer whose context has S reads it after an edit or a rejection."
    comment = Field(default="", max_length=MAX_COMMENT, title="Comment", description=explained)
    by = Field(default="", max_length=200, title="Your name", description="Kept with the decision.")
    form = create_model(
        "Approval",
        __base__=RunInput,
        decision=(Verdict, decision),
        config=(config, proposed),
        comment=(str, comment),
        by=(str, by),
    )
    text = proposal_markdown(space, stage, proposal, previous)
    return form.with_initial_data(
        description=f"**The edited config is not possible:** {problem}\n\n{text}" if problem else text
    )


def _config_form(space: Space) -> type[BaseModel]:
    """The config as nested boxes, one a stratum. No number has a default: a partial answer is refused."""
    share = (float, Field(ge=0, le=1, title=SHARE, description="Share of the instances."))
    strict = ConfigDict(extra="forbid")

    def box(name: str) -> tuple[type[BaseModel], Any]:
        knobs: dict[str, Any] = {knob.name: _number(knob) for knob in space[name].knobs}
        form = create_model(f"Form_{name}", __config__=strict, **{SHARE: share, **knobs})
        return form, Field(title=space.label(name))

    boxes: dict[str, Any] = {f"{_PREFIX}{name}": box(name) for name in space.names}
    return create_model("ConfigForm", __config__=strict, **boxes)


def _number(knob: Knob) -> tuple[type, Any]:
    description = f"{knob.description[0].upper()}{knob.description[1:]}; {knob.low:g} to {knob.high:g}."
    return float, Field(ge=knob.low, le=knob.high, title=knob.name, description=description)


def _form_values(config: EnvConfig) -> dict[str, Any]:
    return {f"{_PREFIX}{name}": part.model_dump() for name, part in config.strata.items()}


def _strata(form: BaseModel) -> dict[str, Any]:
    return {field.removeprefix(_PREFIX): knobs for field, knobs in form.model_dump().items()}
