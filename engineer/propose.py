"""Ask an engineer for the next environment config. One contract: a `DesignContext` in, a `Proposal` out."""

import json
from collections.abc import Callable

from engineer.answer import answer_schema
from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions, proposal_of
from engineer.engineers.function import traceback_in
from engineer.engineers.registry import find_engineer, read_options
from engineer.proposal import Proposal
from engineer.spec import EngineerSpec, is_function, short_name
from envgen.config import EnvConfig
from envgen.errors import EngineerError, SamplingError
from envgen.files import canonical_json
from envgen.space import Space
from policy.chat.contract import ChatModel, Sampling, ask
from policy.chat.endpoint import Endpoint, read_key

Fit = Callable[[EnvConfig], tuple[EnvConfig, list[str]]]
"""The nearest config of which the generator can draw a data set, and what had to be changed; raises
SamplingError."""

MAX_STATE = 1_000_000
"""Characters of an engineer's state at most."""


def design(
    spec: EngineerSpec,
    context: DesignContext,
    seed: int,
    model: ChatModel | None,
    fit: Fit,
) -> Proposal:
    """The proposal of the configured engineer; `model` answers for the engineers that are models.

    After a bad answer, repaired once, if the engineer fails or breaks its contract, or if nothing near the
    answer can be drawn, the previous config is kept and the reason recorded. EngineerError instead with
    `on_failure: stop`, and if a function raises. ConfigError if there is no such engineer, or its options are
    wrong.
    """
    engineer = find_engineer(spec.name, spec.sha256)
    options = read_options(spec, engineer)
    assert model is not None or engineer.asks is None, f"engineer {spec.name} needs a chat model"
    proposal = _propose(engineer, options, context, Brief(spec=spec, seed=seed, model=model))
    proposal = fitted(proposal, context.current.config, fit)
    if proposal.fallback and spec.on_failure == "stop":
        reason = proposal.fallback.replace(", the previous config is kept", "")
        remedy = "to keep the previous config instead, add --set engineer.on_failure=keep"
        raise EngineerError(f"{reason}; run the same command again to ask once more; {remedy}")
    return proposal


def check_answers(spec: EngineerSpec, space: Space) -> bool:
    """Ask the endpoint of an engineer one small question with the options of a design; return whether it has
    an endpoint. ModelError if that does not answer."""
    options = read_options(spec, find_engineer(spec.name, spec.sha256))
    if not isinstance(options, Endpoint):
        return False
    from policy.chat.openai_model import OpenAIModel  # the client library takes two seconds to import

    schema = answer_schema(space) if spec.schema_decoding and not spec.thinking else None
    sampling = Sampling(max_tokens=spec.max_tokens, temperature=spec.temperature, json_schema=schema)
    OpenAIModel(options, read_key(options)).complete([ask("Say that you are there, briefly.")], sampling)
    return True


def fitted(proposal: Proposal, previous: EnvConfig, fit: Fit) -> Proposal:
    """The proposal with the nearest config that can be drawn; the `previous` one if nothing near it can be.

    A config that is kept is fitted too: drawn with another seed, a stratum may hold fewer instances.
    """
    try:
        config, notes = fit(proposal.config)
    except SamplingError as error:
        if proposal.config == previous:
            return proposal  # the next stage fails, and says what is short
        reason = f"no data set can be drawn, the previous config is kept: {error}"
        fields = {"config": previous, "fallback": reason, "changes": ()}
        return fitted(proposal.model_copy(update=fields), previous, fit)
    return proposal.model_copy(update={"config": config, "changes": (*proposal.changes, *notes)})


def unchanged(spec: EngineerSpec, context: DesignContext, config: EnvConfig, reason: str) -> Proposal:
    """The proposal that stands for a decision of the gate: nobody was asked, and what the engineer remembers
    stays."""
    return proposal_of(spec, context, config, fallback=reason, state=context.state)


def _propose(engineer: Engineer, options: EngineerOptions, context: DesignContext, brief: Brief) -> Proposal:
    """What the engineer returns, if it is legal; else the previous config and state, with the reason.

    EngineerError with the traceback for a function."""
    name = short_name(brief.spec.name)
    try:
        # A copy: what an engineer does to it stays with the engineer.
        return _checked(engineer.propose(context.model_copy(deep=True), options, brief), context, name)
    except (Exception, SystemExit) as error:  # an engineer may come from anywhere
        if is_function(brief.spec.name):
            file = brief.spec.name.rpartition(":")[0]
            remedy = f"mend {file} and run the same command again; what is done is kept"
            what = f"engineer {name!r} failed after stage {context.current.stage}:"
            text = f"{what}\n{traceback_in(file, error)}\n{remedy}"
            raise EngineerError(text.encode(errors="replace").decode()) from None
        why = f"{type(error).__name__}: {str(error)[:500]}"
        reason = f"engineer {name!r} failed, the previous config is kept: {why}"
        reason = reason.encode(errors="replace").decode()
    return unchanged(brief.spec, context, context.current.config, reason)


def _checked(answer: object, context: DesignContext, name: str) -> Proposal:
    """A proposal as it may be stored; ValueError if it is none, or its config or state is illegal."""
    if not isinstance(answer, Proposal):
        raise ValueError(f"it returned {type(answer).__name__}, expected a Proposal")
    state = json.dumps(answer.state, allow_nan=False, ensure_ascii=False)
    if len(state) > MAX_STATE:
        raise ValueError(f"its state has {len(state)} characters; at most {MAX_STATE} are kept")
    fields = {"state": json.loads(state), "stage": context.current.stage, "engineer": name}
    proposal = Proposal.model_validate({**answer.model_dump(), **fields})
    (state + canonical_json(proposal)).encode()  # what cannot be stored is refused here
    if proposal.config != context.current.config:
        if proposal.fallback is not None:
            raise ValueError("it gave a reason to keep the previous config, and another config")
        context.space.check(proposal.config)
    return proposal
