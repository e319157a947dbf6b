"""Ask an engineer for the next environment config. One contract: a `DesignContext` in, a `Proposal` out."""

import json
from collections.abc import Callable

from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions, proposal_of
from engineer.engineers.registry import find_engineer, read_options
from engineer.proposal import Proposal
from engineer.spec import EngineerSpec
from envgen.config import EnvConfig
from envgen.errors import SamplingError
from envgen.files import canonical_json
from policy.chat.contract import ChatModel

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

    Never raises for a bad answer: after the repair turn, if the engineer fails or breaks its contract, or if
    nothing near the answer can be drawn, the previous config is kept and the reason recorded. ConfigError if
    there is no such engineer, or its options are wrong.
    """
    engineer = find_engineer(spec.name)
    options = read_options(spec, engineer)
    assert model is not None or engineer.asks is None, f"engineer {spec.name} needs a chat model"
    proposal = _propose(engineer, options, context, Brief(spec=spec, seed=seed, model=model))
    return fitted(proposal, context.current.config, fit)


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
    """What the engineer returns, if it is legal; else the previous config and state, with the reason."""
    name = brief.spec.name
    try:
        # A copy: what an engineer does to it stays with the engineer.
        return _checked(engineer.propose(context.model_copy(deep=True), options, brief), context, name)
    except (Exception, SystemExit) as error:  # an engineer may come from anywhere
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
