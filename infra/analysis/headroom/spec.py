"""What designing could be worth: `infra/analysis/headroom/NAME.yaml`.

Every config is trained on from the first stage to the last (a constant arm), and is a candidate of each
step of a greedy look-ahead, which trains a stage on every candidate and goes on from the best: the most
that an engineer could gain in one step. Without the look-ahead, constant arms may differ in any setting of
the preset: a sweep of the training recipe.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from engineer.spec import EngineerSpec
from envgen.config import SHARE, EnvConfig, Part
from envgen.errors import ConfigError
from envgen.family import Space
from envgen.frozen import Frozen
from infra.analysis.spec import Arm, Child, ComparisonSpec, load_spec
from infra.config.names import Stem
from infra.config.preset import Preset, load_preset

SPECS = Path(__file__).parent
LOOK_AHEAD = "look-ahead"
Chain = tuple[str, ...]
"""Configs, one for each stage."""


def _named(given: Any) -> Any:
    """YAML reads the names of some strata as numbers."""
    return {str(name): value for name, value in given.items()} if isinstance(given, dict) else given


Values = Annotated[float | dict[str, float], BeforeValidator(_named)]
"""One value for all strata, or name of a stratum -> value."""
Weights = Annotated[dict[str, Annotated[float, Field(ge=0)]], BeforeValidator(_named)]


class Edit(Frozen):
    """How a config differs from the preset's default config; any other field is a knob with its `Values`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Values]  # pyright: ignore[reportIncompatibleVariableOverride]
    data_ratio: Weights | None = None
    """Name of a stratum -> weight, scaled to sum to 1; a stratum that is not named gets none."""
    settings: dict[str, Any] = {}
    """Dotted field of the preset -> value instead, in this arm alone."""

    def of(self, space: Space, config: EnvConfig) -> EnvConfig:
        """The edited config; ValueError names the first field that the space does not have."""
        edits = dict(self.__pydantic_extra__)
        known = [knob.name for knob in space.knobs]
        if odd := [name for name in edits if name not in known]:
            raise ValueError(f"{odd[0]}: there is no such knob; known are {', '.join(known)}")
        for field, edit in (*edits.items(), (SHARE, self.data_ratio)):
            if odd := [name for name in edit if name not in space.names] if isinstance(edit, dict) else []:
                names = ", ".join(space.names)
                raise ValueError(f"{field}.{odd[0]}: there is no such {space.noun}; known are {names}")
        if self.data_ratio is not None:
            whole = sum(self.data_ratio.values())
            if whole <= 0:
                raise ValueError(f"{SHARE}: every weight is 0")
            edits[SHARE] = {name: self.data_ratio.get(name, 0) / whole for name in config.strata}
        edited = space.config({name: _edited(name, part, edits) for name, part in config.strata.items()})
        space.check(edited)
        return edited


def _edited(name: str, part: Part, edits: Mapping[str, float | dict[str, float]]) -> Part:
    """A part of a config with the edits of its stratum; one value for all is for those with such a knob."""
    given = {}
    for key, edit in edits.items():
        if isinstance(edit, dict):
            given |= {key: edit[name]} if name in edit else {}
        elif part.get(key) is not None:
            given[key] = edit
    return Part.model_validate({**part.model_dump(), **given})


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
                raise ValueError(
                    f"configs.{name}.settings: the stages of a look-ahead share their settings; set "
                    "look_ahead to false"
                )
        assert self.presets
        return self

    @cached_property
    def presets(self) -> dict[str, Preset]:
        """Config -> preset of the curriculum that trains on it throughout; ValueError names a bad one."""
        presets = {}
        for name, edit in self.configs.items():
            try:
                preset = load_preset(self.preset, self.settings | edit.settings)
                config = edit.of(preset.space, preset.default_config)
            except ConfigError as error:
                raise ValueError(f"configs.{name}.settings: {error}") from None
            except ValueError as error:
                raise ValueError(f"configs.{name}: {error}") from None
            constant = {"engineer": EngineerSpec(name="fixed", pilot=0), "default_config": config}
            presets[name] = preset.model_copy(update=constant | {"stages": self.stages})
        return presets

    @property
    def baseline(self) -> str:
        """The config that the others are compared with."""
        return next(iter(self.configs))

    @property
    def comparison(self) -> ComparisonSpec:
        """The constant configs as the arms of a comparison; no two share a stage 0."""
        return ComparisonSpec(
            name=f"headroom-{self.name}",
            preset=self.presets[self.baseline],
            arms=tuple(self._arm(name) for name in self.configs),
            seeds=self.seeds,
            stage_0="own",
        )

    def _arm(self, name: str) -> Arm:
        preset = self.presets[name]
        return Arm(engineer="fixed", variant=preset.engineer.variant, name=name, preset=preset)

    def step(self, chain: Chain, seed: int) -> tuple[str, Preset]:
        """Directory and preset of the curriculum that trains a stage on each config of a chain, in order.

        The first stage of all is that of a constant arm.
        """
        first, *others = chain
        child = Child(arm=self._arm(first), seed=seed)
        changes: dict[str, Any] = {"stages": len(chain)}
        if others:
            configs = [self.presets[name].default_config.model_dump(mode="json") for name in others]
            changes["engineer"] = EngineerSpec(name="replay", pilot=0, options={"configs": configs})
        name = f"{LOOK_AHEAD}-s{seed}-{'.'.join(chain)}" if others else child.name
        return name, self.comparison.preset_of(child).model_copy(update=changes)


def load_headroom(name: str) -> HeadroomSpec:
    """A shipped spec by name, or a YAML file by path; ConfigError names file and field."""
    return load_spec(name, SPECS, HeadroomSpec, "headroom spec")
