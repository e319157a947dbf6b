"""Engineers that read no result: `random`, any legal config, `fixed`, the config that is there, and `replay`,
the configs of a recorded run or of a list, one a stage."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AliasPath, BaseModel, BeforeValidator, Field, ValidationError

from engineer.answer import rounded
from engineer.context import DesignContext
from engineer.contract import Brief, Engineer
from engineer.engineers.guards import Floored, divided
from engineer.proposal import Proposal
from envgen.config import SHARE, EnvConfig, Part
from envgen.errors import DataError, describe_validation_error
from envgen.files import read_text
from envgen.seeds import generator
from envgen.space import Space

RESULTS = "results.json"


class Random(Floored):
    """Any legal config, drawn at random."""

    def draw(self, space: Space, rng: np.random.Generator) -> EnvConfig:
        """Return a config uniform over shares (flat Dirichlet, then at least the floor each) and knobs."""
        drawn = rng.dirichlet(np.ones(len(space.strata))).tolist()
        shares = divided(dict(zip(space.names, drawn, strict=True)), 1.0, self.floor_in(space))
        shares, parts = rounded(shares), {}
        for stratum in space.strata:
            knobs = {knob.name: float(rng.uniform(knob.low, knob.high)) for knob in stratum.knobs}
            parts[stratum.name] = Part.model_validate({SHARE: shares[stratum.name], **knobs})
        return space.config(parts)

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
    file = Path(value) / RESULTS if Path(value).is_dir() else Path(value)
    try:
        stages = _Recording.model_validate_json(read_text(file)).stages
    except DataError as error:
        raise ValueError(str(error)) from None
    except ValidationError as error:
        what = describe_validation_error(error, str(file))
        raise ValueError(f"{what}; give the {RESULTS} of a run") from None
    return tuple(stage.config for stage in stages)


class Replay(Engineer):
    """The configs that another run proposed, or a list, one a stage."""

    configs: Annotated[tuple[EnvConfig, ...], Field(min_length=1, max_length=100), BeforeValidator(_recorded)]
    """The configs of stages 1, 2, ...: a list, or the path of a run or of its `results.json`, relative to the
    working directory.

    Stage 0 uses the preset's default config. A path is read once, when the preset is loaded: the run then
    holds the configs themselves."""

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
        stage = context.current.stage
        if stage >= len(self.configs):
            reason = "The recording has ended; the config is kept."
            return Proposal(config=context.current.config, rationale=reason)
        return Proposal(config=self.configs[stage], rationale=f"Recorded config of stage {stage + 1}.")
