"""What an engineer is: one function from a `DesignContext` to a `Proposal`, its options, and the model it may
ask.

A package adds an engineer without any change here. It declares an entry point in the group
`envwright.engineers`, whose name is the engineer's name and whose value leads to an `Engineer`:

    # pyproject.toml
    [project.entry-points."envwright.engineers"]
    tidal = "tidal_engineer:ENGINEER"

    # tidal_engineer.py, with names from pydantic, engineer.contract, engineer.context and engineer.proposal
    class Options(EngineerOptions):
        period: int = Field(default=2, ge=1)

    def propose(context: DesignContext, options: Options, brief: Brief) -> Proposal:
        tide = context.state.get("tide", 0) + 1
        strata = {}
        for index, stratum in enumerate(context.space.strata):
            share = 0.8 if index % options.period == tide % options.period else 0.2
            middle = {knob.name: (knob.low + knob.high) / 2 for knob in stratum.knobs}
            strata[stratum.name] = {"data_ratio": share, **middle}
        raw = {context.space.key: strata}
        return brief.proposal(context, raw, "The tide is in.", state={"tide": tide})

    ENGINEER = Engineer(propose, Options)

`context.state` is what the engineer's last proposal carried as `state`, and empty after stage 0. It is the
only memory: a step that was cut off is repeated with the same context, so the new state has to follow from
the context alone. `brief.proposal` projects a raw config onto the legal space; an engineer that raises, or
returns what is illegal, costs the stage nothing but its redesign: the previous config is kept and the reason
recorded. What is random takes its seed from `generator(brief.seed, context.current.stage, "a purpose")`. A
preset chooses it with `engineer: {name: tidal, options: {period: 3}}`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import ConfigDict

from engineer.answer import project
from engineer.context import DesignContext
from engineer.proposal import Proposal
from engineer.spec import EngineerSpec, short_name
from envgen.config import EnvConfig
from envgen.frozen import Frozen
from envgen.space import Space
from policy.chat.contract import ChatModel


class EngineerOptions(Frozen):
    """The parameters of an engineer; this one has none."""

    model_config = ConfigDict(allow_inf_nan=False)


Options = TypeVar("Options", bound=EngineerOptions)


@dataclass(frozen=True)
class Brief:
    """What an engineer gets besides the context and its options."""

    spec: EngineerSpec
    seed: int
    """Seed of the curriculum."""
    model: ChatModel | None
    """The chat model that the engineer `asks`; None for the others."""

    def proposal(
        self,
        context: DesignContext,
        raw: dict[str, Any],
        rationale: str,
        state: dict[str, Any] | None = None,
    ) -> Proposal:
        """The proposal of a raw config, `{space.key: {stratum: {"data_ratio": ..., knob: ...}}}`,
        projected."""
        config, changes = project(raw, context.space, context.current.config)
        fields = {"rationale": rationale, "changes": changes, "state": state or {}}
        return proposal_of(self.spec, context, config, proposed=raw, **fields)

    def exactly(self, context: DesignContext, config: EnvConfig, rationale: str) -> Proposal:
        """The proposal of a config that is legal as it is."""
        raw = config.model_dump(mode="json")
        return proposal_of(self.spec, context, config, proposed=raw, rationale=rationale)


def proposal_of(spec: EngineerSpec, context: DesignContext, config: EnvConfig, **fields: Any) -> Proposal:
    """A proposal after the stage of a context, with further fields of `Proposal`."""
    asked = {"stage": context.current.stage, "engineer": short_name(spec.name), "variant": spec.variant}
    return Proposal(config=config, **asked, **fields)


@dataclass(frozen=True)
class Engineer(Generic[Options]):
    """A way to propose the next environment config."""

    propose: Callable[[DesignContext, Options, Brief], Proposal]
    """The first line of its docstring is what `envwright engineers` says of it."""
    options: type[Options] = EngineerOptions  # type: ignore[assignment]
    """The pydantic model of its parameters."""
    asks: Literal["checkpoint", "base"] | None = None
    """The chat model it asks: the policy just trained, the base policy, or none."""
    reads_context: bool = False
    """Whether a model that it brings along reads the context in words, so that the context variant matters;
    for one that `asks` it does anyway."""
    check: Callable[[Options, Space, int], None] | None = None
    """Refuses options that do not fit the config space and the number of stages, with a ValueError, before a
    run starts."""
