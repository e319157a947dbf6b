"""Engineers that read no result: `random`, any legal config, `fixed`, the config that is there, and `replay`,
the configs of a recorded run or of a list, one a stage."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from engineer.answer import rounded
from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions
from engineer.engineers.guards import FloorOptions, check_floor, divided
from engineer.proposal import Proposal
from envgen.config import SHARE, EnvConfig, Part
from envgen.errors import DataError, describe_validation_error
from envgen.files import read_text
from envgen.seeds import generator
from envgen.space import Space

RESULTS = "results.json"


def random_config(space: Space, rng: np.random.Generator, floor: float) -> EnvConfig:
    """Return a config uniform over shares (flat Dirichlet, then at least `floor` each) and knobs."""
    drawn = rng.dirichlet(np.ones(len(space.strata))).tolist()
    shares = rounded(divided(dict(zip(space.names, drawn, strict=True)), 1.0, floor))
    knobs = {
        stratum.name: {knob.name: float(rng.uniform(knob.low, knob.high)) for knob in stratum.knobs}
        for stratum in space.strata
    }
    return space.config(
        {name: Part.model_validate({SHARE: share, **knobs[name]}) for name, share in shares.items()}
    )


def _propose_random(context: DesignContext, options: FloorOptions, brief: Brief) -> Proposal:
    """Any legal config, drawn at random."""
    rng = generator(brief.seed, context.current.stage, "random-engineer")
    config = random_config(context.space, rng, options.floor_in(context.space))
    return brief.exactly(context, config, "Drawn at random from the config space.")


def _propose_fixed(context: DesignContext, options: EngineerOptions, brief: Brief) -> Proposal:
    """The config that is there."""
    return brief.exactly(context, context.current.config, "The config is fixed.")


class _Proposed(BaseModel):
    config: EnvConfig


class _Stage(BaseModel):
    proposal: _Proposed


class _Recording(BaseModel):
    """What is read of the results of a run."""

    stages: list[_Stage] = Field(min_length=1)


def recorded_configs(path: Path) -> tuple[EnvConfig, ...]:
    """The configs that the stages of a run proposed; ValueError names file and field.

    A directory stands for its `results.json`.
    """
    file = path / RESULTS if path.is_dir() else path
    try:
        stages = _Recording.model_validate_json(read_text(file)).stages
    except DataError as error:
        raise ValueError(str(error)) from None
    except ValidationError as error:
        what = describe_validation_error(error, str(file))
        raise ValueError(f"{what}; give the {RESULTS} of a run") from None
    return tuple(stage.proposal.config for stage in stages)


def _read(value: Any) -> Any:
    return recorded_configs(Path(value)) if isinstance(value, str | Path) else value


class ReplayOptions(EngineerOptions):
    """The sequence."""

    configs: Annotated[tuple[EnvConfig, ...], BeforeValidator(_read)] = Field(min_length=1, max_length=100)
    """The configs of stages 1, 2, ...: a list, or the path of a run or of its `results.json`, relative to the
    working directory.

    Stage 0 uses the preset's default config. A path is read once, when the preset is loaded: the run then
    holds the configs themselves."""


def _check_configs(options: ReplayOptions, space: Space, stages: int) -> None:
    """ValueError if there are too few configs for the stages, or one is outside of the config space."""
    if len(options.configs) < stages - 1:
        raise ValueError(
            f"configs: has {len(options.configs)} configs, {stages} stages need {stages - 1}; give a longer "
            "recording or fewer stages"
        )
    for number, config in enumerate(options.configs):
        try:
            space.check(config)
        except ValueError as error:
            raise ValueError(f"configs.{number}.{error}") from None


def _propose_replay(context: DesignContext, options: ReplayOptions, brief: Brief) -> Proposal:
    """The configs that another run proposed, or a list, one a stage."""
    stage = context.current.stage
    if stage >= len(options.configs):
        return brief.exactly(context, context.current.config, "The recording has ended; the config is kept.")
    return brief.exactly(context, options.configs[stage], f"Recorded config of stage {stage + 1}.")


RANDOM = Engineer(_propose_random, FloorOptions, check=check_floor)
FIXED = Engineer(_propose_fixed)
REPLAY = Engineer(_propose_replay, ReplayOptions, check=_check_configs)
