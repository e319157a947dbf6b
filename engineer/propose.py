"""Ask an engineer for the next environment config. One contract: a `DesignContext` in, a `Proposal` out."""

import json
from collections.abc import Callable
from typing import Any

from engineer.context import DesignContext
from engineer.contract import Brief, Proposal
from engineer.engineers.llm import OpenAI, sampling
from engineer.engineers.registry import load, traceback_in
from engineer.spec import EngineerSpec, is_function, short_name
from envgen.config import EnvConfig
from envgen.errors import EngineerError, SamplingError
from envgen.files import canonical_json
from envgen.space import Space
from policy.chat.contract import ChatModel, ask

Fit = Callable[[EnvConfig], tuple[EnvConfig, list[str]]]
"""Returns the nearest config that can be drawn, and what had to be changed; raises SamplingError."""
MAX_STATE = 1_000_000
"""Characters of an engineer's state at most."""


def design(
    spec: EngineerSpec, context: DesignContext, seed: int, model: ChatModel | None, fit: Fit
) -> Proposal:
    """Return the proposal of the configured engineer; `model` answers for the engineers that are models.

    After a bad answer, repaired once, if the engineer fails or breaks its contract, or if nothing near the
    answer can be drawn, the previous config is kept and the reason recorded. EngineerError instead with
    `on_failure: stop`, and if a function raises. ConfigError for an unknown engineer or wrong options.
    """
    engineer = load(spec)
    assert model is not None or engineer.asks is None, f"engineer {spec.name} needs a chat model"
    try:
        # A copy: what an engineer does to it stays with the engineer.
        answer = engineer.propose(context.model_copy(deep=True), Brief(spec, seed, model))
        proposal = _checked(answer, spec, context)
    except (Exception, SystemExit) as error:  # an engineer may come from anywhere
        proposal = unchanged(spec, context, context.current.config, _failure(spec, context, error))
    proposal = fitted(proposal, context.current.config, fit)
    if proposal.fallback and spec.on_failure == "stop":
        reason = proposal.fallback.replace(", the previous config is kept", "")
        remedy = "to keep the previous config instead, add --set engineer.on_failure=keep"
        raise EngineerError(f"{reason}; run the same command again to ask once more; {remedy}")
    return proposal


def check_answers(spec: EngineerSpec, space: Space) -> bool:
    """Ask the endpoint of an engineer one small question with the options of a design; return whether it has
    an endpoint. ModelError if that does not answer."""
    if isinstance(endpoint := load(spec), OpenAI):
        endpoint.client().complete([ask("Say that you are there, briefly.")], sampling(spec, space))
    return isinstance(endpoint, OpenAI)


def fitted(proposal: Proposal, previous: EnvConfig, fit: Fit) -> Proposal:
    """Return the proposal with the nearest config that can be drawn, or with the `previous` one, which is
    fitted too: drawn with another seed, a stratum may hold fewer instances."""
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
    """Return the proposal of a config that no engineer chose; what the engineer remembers stays."""
    return Proposal(config=config, fallback=reason, state=context.state, **_origin(spec, context))


def _origin(spec: EngineerSpec, context: DesignContext) -> dict[str, Any]:
    """Return the fields of a proposal that say where it comes from."""
    return {"stage": context.current.stage, "engineer": short_name(spec.name), "context": spec.context}


def _failure(spec: EngineerSpec, context: DesignContext, error: BaseException) -> str:
    """Return why the previous config is kept; EngineerError with the traceback for a function."""
    name, file = short_name(spec.name), spec.name.rpartition(":")[0]
    reason = f"engineer {name!r} failed, the previous config is kept: {type(error).__name__}: "
    if not is_function(spec.name):
        return (reason + str(error)[:500]).encode(errors="replace").decode()
    remedy = f"mend {file} and run the same command again; what is done is kept"
    what = f"engineer {name!r} failed after stage {context.current.stage}:"
    text = f"{what}\n{traceback_in(file, error)}\n{remedy}"
    raise EngineerError(text.encode(errors="replace").decode()) from None


def _checked(answer: object, spec: EngineerSpec, context: DesignContext) -> Proposal:
    """Return a proposal as it may be stored; ValueError if it is none, or its config or state is illegal."""
    if not isinstance(answer, Proposal):
        raise ValueError(f"it returned {type(answer).__name__}, expected a Proposal")
    state = json.dumps(answer.state, allow_nan=False, ensure_ascii=False)
    if len(state) > MAX_STATE:
        raise ValueError(f"its state has {len(state)} characters; at most {MAX_STATE} are kept")
    fields = {"state": json.loads(state), **_origin(spec, context)}
    proposal = Proposal.model_validate({**answer.model_dump(), **fields})
    (state + canonical_json(proposal)).encode()  # what cannot be stored is refused here
    if proposal.config != context.current.config:
        if proposal.fallback is not None:
            raise ValueError("it gave a reason to keep the previous config, and another config")
        context.space.check(proposal.config)
    return proposal
