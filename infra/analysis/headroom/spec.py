"""What designing could be worth: `infra/analysis/headroom/NAME.yaml`.

Every config is trained on from the first stage to the last (a constant arm), and is a candidate of each
step of a greedy look-ahead, which trains a stage on every candidate and goes on from the best: the most
that a designer could gain in one step. Without the look-ahead, constant arms may differ in any setting of
the preset: a sweep of the training recipe.
"""

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from engineer.spec import DesignSpec
from envgen.config import EnvConfig, SizeConfig
from envgen.errors import ConfigError
from envgen.frozen import Frozen
from infra.analysis.spec import Arm, Child, ComparisonSpec, load_spec
from infra.config.names import Stem
from infra.config.preset import Preset, load_preset

SPECS = Path(__file__).parent
LOOK_AHEAD = "look-ahead"
Chain = tuple[str, ...]
"""Configs, one for each stage."""
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
        weights = self.data_ratio or {}
        if self.data_ratio is not None and sum(weights.values()) <= 0:
            raise ValueError("data_ratio: every weight is 0")
        shares = {size: weights.get(size, 0) / sum(weights.values()) for size in config.sizes} if weights else None
        edits = {"data_ratio": shares, "hole_ratio": self.hole_ratio, "wait_ratio": self.wait_ratio}
        sizes = {}
        for size, knobs in config.sizes.items():
            values = {name: edit.get(size) if isinstance(edit, dict) else edit for name, edit in edits.items()}
            given = {name: value for name, value in values.items() if value is not None}
            sizes[size] = SizeConfig(**{**knobs.model_dump(), **given})
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
        assert self.presets
        return self

    @cached_property
    def presets(self) -> dict[str, Preset]:
        """Name of a config -> the preset of the curriculum that trains on it throughout; ValueError names a bad one."""
        plain = load_preset(self.preset, self.settings)
        presets = {}
        for name, edit in self.configs.items():
            try:
                preset = load_preset(self.preset, self.settings | edit.settings) if edit.settings else plain
                changes = {"default_config": edit.of(preset.default_config), "stages": self.stages}
            except ConfigError as error:
                raise ValueError(f"configs.{name}.settings: {error}") from None
            except ValueError as error:
                raise ValueError(f"configs.{name}: {error}") from None
            presets[name] = preset.model_copy(update=changes | {"design": DesignSpec(designer="fixed", pilot=0)})
        return presets

    @property
    def baseline(self) -> str:
        """The config that the others are compared with."""
        return next(iter(self.configs))

    @property
    def comparison(self) -> ComparisonSpec:
        """The constant configs as the arms of a comparison; no curriculum shares its stage 0 with another arm's."""
        return ComparisonSpec(
            name=f"headroom-{self.name}",
            preset=self.presets[self.baseline],
            arms=tuple(self._arm(name) for name in self.configs),
            seeds=self.seeds,
            stage_0="own",
        )

    def _arm(self, name: str) -> Arm:
        preset = self.presets[name]
        return Arm(designer="fixed", variant=preset.design.variant, name=name, preset=preset)

    def step(self, chain: Chain, seed: int) -> tuple[str, Preset]:
        """Directory and preset of the curriculum that trains a stage on each config of a chain, in order.

        The first stage of all is that of a constant arm.
        """
        first, *others = chain
        child = Child(arm=self._arm(first), seed=seed)
        changes: dict[str, Any] = {"stages": len(chain)}
        if others:
            configs = [self.presets[name].default_config.model_dump(mode="json") for name in others]
            changes["design"] = DesignSpec(designer="replay", pilot=0, options={"configs": configs})
        name = f"{LOOK_AHEAD}-s{seed}-{'.'.join(chain)}" if others else child.name
        return name, self.comparison.preset_of(child).model_copy(update=changes)


def load_headroom(name: str) -> HeadroomSpec:
    """A shipped spec by name, or a YAML file by path; ConfigError names file and field."""
    return load_spec(name, SPECS, HeadroomSpec, "headroom spec")
