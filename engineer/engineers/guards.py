"""Guards that keep a rule from starving a stratum: smoothed rates, a smallest share, the format alarm; and
engineers that read no result."""

import math
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import AliasPath, BaseModel, BeforeValidator, Field, ValidationError

from engineer.answer import rounded
from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, Proposal, projected
from envgen.breakdown import format_alarms
from envgen.config import SHARE, EnvConfig
from envgen.errors import DataError, describe_validation_error
from envgen.files import read_text
from envgen.seeds import generator
from envgen.space import Space


def divided(weights: dict[str, float], budget: float, floor: float) -> dict[str, float]:
    """Return shares of a budget in proportion to weights, at least `floor` each; equal without any weight."""
    count, total = len(weights), math.fsum(weights.values())
    shares = {name: budget * (weight / total if total > 0 else 1 / count) for name, weight in weights.items()}
    low = [name for name, share in shares.items() if share < floor]
    if not low or len(low) == len(shares):
        return shares
    others = {name: weight for name, weight in weights.items() if name not in low}
    return dict.fromkeys(weights, floor) | divided(others, budget - floor * len(low), floor)


class Floored(Engineer):
    """An engineer that gives each stratum a smallest share."""

    floor: float | None = Field(default=None, ge=0, le=1)
    """Smallest share of a stratum; 0 to 1 / number of strata, default 0.05 / number of strata."""

    def floor_in(self, space: Space) -> float:
        """Return the smallest share of a stratum of the space."""
        return 0.05 / len(space.strata) if self.floor is None else self.floor

    def check_fit(self, space: Space, stages: int) -> None:
        """Raise ValueError if the floors of all strata sum to more than 1."""
        count, floor = len(space.strata), self.floor_in(space)
        if floor > 1 / count:
            raise ValueError(f"floor: {floor:g} is too large for {count} strata; use {1 / count:.3g} or less")


class Redesign(NamedTuple):
    """What a rule decides. Without `knobs` they stay, and the reason lists the shares."""

    shares: dict[str, float]
    reason: str
    knobs: dict[str, dict[str, float]] | None = None
    state: dict[str, Any] = {}


class Rule(Floored):
    """A rule over valid rates, with guards; their defaults are as in marin#8765, round 4."""

    reversion: float = Field(default=2.0, ge=0)
    """Answers at 50 % valid that are added to each stratum's in each stage; 0 or more, default 2."""
    alarm: bool = True
    """Keep share and knobs of a stratum with the format alarm; default true."""

    def _redesign(self, context: DesignContext, rates: dict[str, float]) -> Redesign:
        raise NotImplementedError

    def valid_rates(self, context: DesignContext) -> dict[str, float]:
        """Return the smoothed valid rate, 0 to 1, of each stratum without the format alarm.

        It is (valid + reversion / 2) / (n + reversion); without an evaluation it comes from the neighbours in
        the order of the space, by linear interpolation, and is 0.5 if no stratum was evaluated.
        """
        raised = format_alarms(context.space, context.current.breakdown) if self.alarm else {}
        places = {name: place for place, name in enumerate(context.space.names) if name not in raised}
        parts = {name: context.current.breakdown.strata.get(name) for name in places}
        seen = {places[name]: part for name, part in parts.items() if part and part.n}
        mass = self.reversion
        rates = [(part.valid + mass / 2) / (part.n + mass) for part in seen.values()]
        smooth = np.interp(list(places.values()), list(seen) or [0], rates or [0.5])
        return dict(zip(places, smooth.tolist(), strict=True))

    def propose(self, context: DesignContext, brief: Brief) -> Proposal:
        """Return the guarded redesign: a stratum with the format alarm keeps its share, the others divide the
        rest in proportion to the rule's shares, and each gets the floor at least."""
        space, old, rates = context.space, context.current_parts(), self.valid_rates(context)
        shares, reason, knobs, state = self._redesign(context, rates)
        floor, broken = self.floor_in(space), [name for name in space.names if name not in rates]
        budget = math.fsum(max(old[name][SHARE], floor) for name in broken)
        budget = min(budget, 1 - floor * len(rates)) if rates else 1.0
        fixed, free = {name: old[name][SHARE] for name in broken}, {name: shares[name] for name in rates}
        shares = divided(fixed, budget, floor) | divided(free, 1 - budget, floor)
        if knobs is None:
            listed = [f"{space.label(name)} {100 * shares[name]:.0f} %" for name in space.names]
            reason = f"{reason}: {', '.join(listed)}."
        if broken:
            reason += f" Format, not skill, so that the share is kept: {space.named(broken)}."
        raw = {name: {SHARE: shares[name], **(knobs or {}).get(name, {})} for name in space.names}
        return projected(context, {"edits": raw}, reason, state)


class Random(Floored):
    """Any legal config, drawn at random."""

    def draw(self, space: Space, rng: np.random.Generator) -> EnvConfig:
        """Return a config uniform over shares (flat Dirichlet, then at least the floor each) and knobs."""
        drawn = rng.dirichlet(np.ones(len(space.strata))).tolist()
        shares = divided(dict(zip(space.names, drawn, strict=True)), 1.0, self.floor_in(space))
        parts = {name: {SHARE: share} for name, share in rounded(shares).items()}
        for stratum in space.strata:
            parts[stratum.name] |= {k.name: float(rng.uniform(k.low, k.high)) for k in stratum.knobs}
        return EnvConfig.model_validate({space.key: parts})

    def propose(self, context: DesignContext, brief: Brief) -> Proposal:
        """Return the draw of seed and stage."""
        config = self.draw(context.space, generator(brief.seed, context.current.stage, "random-engineer"))
        return Proposal(config=config, rationale="Drawn at random from the config space.")


class Fixed(Engineer):
    """The config that is there."""

    def propose(self, context: DesignContext, brief: Brief) -> Proposal:
        """Return the current config."""
        return Proposal(config=context.current.config, rationale="The config is fixed.")


class _Stage(BaseModel):
    config: EnvConfig = Field(validation_alias=AliasPath("proposal", "config"))


class _Recording(BaseModel):
    """What is read of the results of a run."""

    stages: list[_Stage] = Field(min_length=1)


def _recorded(value: Any) -> Any:
    """Return the configs that the stages of a run proposed, from its directory or `results.json`; what is no
    path as it is. ValueError names file and field."""
    if not isinstance(value, str | Path):
        return value
    file = Path(value) / "results.json" if Path(value).is_dir() else Path(value)
    try:
        stages = _Recording.model_validate_json(read_text(file)).stages
    except DataError as error:
        raise ValueError(str(error)) from None
    except ValidationError as error:
        what = describe_validation_error(error, str(file))
        raise ValueError(f"{what}; give the results.json of a run") from None
    return tuple(stage.config for stage in stages)


class Replay(Engineer):
    """The configs that another run proposed, or a list, one a stage."""

    configs: Annotated[tuple[EnvConfig, ...], Field(min_length=1, max_length=100), BeforeValidator(_recorded)]
    """The configs of stages 1, 2, ...: a list, or the path of a run or of its `results.json`, relative to the
    working directory, which is read once: the run then holds the configs themselves."""

    def check_fit(self, space: Space, stages: int) -> None:
        """Raise ValueError if there are too few configs, or one is outside of the config space."""
        if (count := len(self.configs)) < stages - 1:
            need = f"{stages} stages need {stages - 1}; give a longer recording or fewer stages"
            raise ValueError(f"configs: has {count} configs, {need}")
        for number, config in enumerate(self.configs):
            try:
                space.check(config)
            except ValueError as error:
                raise ValueError(f"configs.{number}.{error}") from None

    def propose(self, context: DesignContext, brief: Brief) -> Proposal:
        """Return the config of the next stage; the current one after the last."""
        config, reason = context.current.config, "The recording has ended; the config is kept."
        if (stage := context.current.stage) < len(self.configs):
            config, reason = self.configs[stage], f"Recorded config of stage {stage + 1}."
        return Proposal(config=config, rationale=reason)
