"""What designing could be worth: `infra/analysis/headroom/NAME.yaml`.

Every config is trained on from the first stage to the last (a constant arm), and is a candidate of each step of a greedy
look-ahead, which trains a stage on every candidate and goes on from the best: the most that a designer could gain in one step.
Without the look-ahead, constant arms may differ in any setting of the preset: a sweep of the training recipe.
"""

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from engineer.spec import DesignSpec
from envgen.config import EnvConfig, SizeConfig
from envgen.errors import ConfigError, describe_validation_error
from envgen.frozen import Frozen
from infra.names import Stem
from infra.preset import Preset, load_preset, read_yaml

SPECS = Path(__file__).parent
LOOK_AHEAD = "look-ahead"
Knob = float | dict[int, float]
"""One value for all map sizes, or map size -> value."""


class Edit(Frozen):
    """How a config differs from the preset's default config."""

    data_ratio: dict[int, Annotated[float, Field(ge=0)]] | None = None
    """Map size -> weight, scaled to sum to 1; a size that is not named gets none."""
    hole_ratio: Knob | None = None
    wait_ratio: Knob | None = None
    settings: dict[str, Any] = {}
    """Dotted field of the preset -> value instead, in this arm alone."""

    def of(self, config: EnvConfig) -> EnvConfig:
        """The edited config; ValueError if it is none."""
        sizes = {}
        total = sum(self.data_ratio.values()) if self.data_ratio else 1.0
        if total <= 0:
            raise ValueError("data_ratio: every weight is 0")
        for size, knobs in config.sizes.items():
            shares = {} if self.data_ratio is None else {"data_ratio": self.data_ratio.get(size, 0) / total}
            ratios = {name: _value(getattr(self, name), size) for name in ("hole_ratio", "wait_ratio")}
            given = {name: value for name, value in ratios.items() if value is not None}
            sizes[size] = SizeConfig(**{**knobs.model_dump(), **shares, **given})
        return EnvConfig(sizes=sizes)


class HeadroomSpec(Frozen):
    """Constant configs, seeds and stages."""

    name: Stem
    preset: str
    stages: int = Field(ge=1, le=20)
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)
    settings: dict[str, Any] = {}
    """Dotted field of the preset -> value instead."""
    configs: dict[Annotated[str, Field(pattern=r"^[a-z0-9-]+$")], Edit] = Field(min_length=2)
    """Name -> config. The first is what the others are compared with."""
    look_ahead: bool = True
    """Whether the greedy look-ahead is run too."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if LOOK_AHEAD in self.configs:
            raise ValueError(f"configs.{LOOK_AHEAD}: is the name of the look-ahead; choose another")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {list(self.seeds)}: a seed is given twice")
        for name, edit in self.configs.items():
            if edit.settings and self.look_ahead:
                raise ValueError(f"configs.{name}.settings: the stages of a look-ahead share their settings; set look_ahead to false")
            self.config(name)
        return self

    @cached_property
    def presets(self) -> dict[str, Preset]:
        """Name of a config -> the preset that it is trained with; its default config is not yet edited."""
        plain = load_preset(self.preset, self.settings)
        return {name: self._preset(name, edit.settings) if edit.settings else plain for name, edit in self.configs.items()}

    def _preset(self, name: str, settings: dict[str, Any]) -> Preset:
        try:
            return load_preset(self.preset, self.settings | settings)
        except ConfigError as error:
            raise ValueError(f"configs.{name}.settings: {error}") from None

    @property
    def baseline(self) -> str:
        """The config that the others are compared with."""
        return next(iter(self.configs))

    def config(self, name: str) -> EnvConfig:
        """A config by its name."""
        try:
            return self.configs[name].of(self.presets[name].default_config)
        except ValueError as error:
            raise ValueError(f"configs.{name}: {error}") from None

    def constant(self, name: str, seed: int) -> Preset:
        """The curriculum that trains on one config throughout."""
        return self._curriculum(name, seed, DesignSpec(designer="fixed", pilot=0), self.stages)

    def step(self, chain: tuple[str, ...], seed: int) -> Preset:
        """The curriculum that trains a stage on each config of a chain, in order."""
        first, *others = chain
        if not others:
            return self._curriculum(first, seed, DesignSpec(designer="fixed", pilot=0), 1)
        configs = [self.config(name).model_dump(mode="json") for name in others]
        return self._curriculum(first, seed, DesignSpec(designer="replay", pilot=0, options={"configs": configs}), len(chain))

    def _curriculum(self, first: str, seed: int, design: DesignSpec, stages: int) -> Preset:
        return self.presets[first].model_copy(update={"seed": seed, "stages": stages, "default_config": self.config(first), "design": design})


def load_headroom(name: str) -> HeadroomSpec:
    """A shipped spec by name, or a YAML file by path; ConfigError names file and field."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else SPECS / f"{name}.yaml"
    if not path.is_file():
        shipped = ", ".join(sorted(found.stem for found in SPECS.glob("*.yaml")))
        raise ConfigError(f"{name}: no such headroom spec; the shipped ones are {shipped}, or give the path of a YAML file")
    try:
        return HeadroomSpec.model_validate(read_yaml(path))
    except ValidationError as error:
        raise ConfigError(describe_validation_error(error, str(path))) from None


def _value(knob: Knob | None, size: int) -> float | None:
    return knob.get(size) if isinstance(knob, dict) else knob
