"""Presets: everything that decides a curriculum, as sparse commented YAML in and one resolved JSON out."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from engineer.context import VARIANTS, ConfigSpace
from engineer.engineers.registry import find_designer, resolve
from engineer.spec import DesignSpec
from envgen.config import MAX_HOLE_RATIO, EnvConfig, MapSize, SizeConfig
from envgen.errors import ConfigError, DataError, SamplingError, describe_validation_error
from envgen.frozen import Frozen
from envgen.mapf.problem import MAX_AGENTS
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.sampler import MIN_AGENTS, quotas
from infra.config.lengths import check_lengths
from infra.config.names import Stem
from policy.chat.engine_config import EngineConfig
from policy.checkpoints import SHIPPED
from policy.grpo.batches import Batches
from policy.grpo.rewards import RewardWeights
from policy.grpo.sharding import Sharding
from policy.grpo.train_spec import TrainingSettings, check_training, check_trl_options
from policy.tiny.spec import RECIPE, BootstrapRecipe

TINY_DESIGN_TOKENS = 160
"""Longest design answer of the tiny policy; the question and one repair share its context of 1,024 tokens."""
PRESETS = Path(__file__).parent / "presets"
TUNING_SEED = 20_270
"""Seed of the tuning set: `--set validation.seed=20270` judges on boards that are none of the validation set."""


class ValidationSpec(Frozen):
    """The fixed validation set: for each map size the same number of instances of every wait and hole ratio."""

    wait_ratios: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(default=(0.25, 0.5, 0.75), min_length=1)
    hole_ratios: tuple[Annotated[float, Field(ge=0, le=MAX_HOLE_RATIO)], ...] = Field(default=(0.2, 0.3, 0.4), min_length=1)
    instances: int = Field(default=17, ge=1)
    """Instances of each map size, wait ratio and hole ratio."""
    map_sizes: tuple[MapSize, ...] = ()
    """Map sizes; those of the config space if left out."""
    seed: int = Field(default=20_260, ge=0)
    """Not the curriculum's seed: every curriculum of a preset is judged on the same instances."""

    def configs(self, map_sizes: tuple[int, ...]) -> list[tuple[str, EnvConfig, int]]:
        """(purpose, config, count) of each part of the set."""
        sizes = self.map_sizes or map_sizes
        return [
            (
                f"validation-{wait}-{hole}-{size}",
                EnvConfig(sizes={size: SizeConfig(data_ratio=1, hole_ratio=hole, wait_ratio=wait)}),
                self.instances,
            )
            for size in sizes
            for wait in self.wait_ratios
            for hole in self.hole_ratios
        ]


class Preset(Frozen):
    """A curriculum: policy, testbed, training, designer."""

    name: Stem
    description: str = ""
    approval: Literal["none", "required"] | None = None
    """`required`: before each stage after the first a person decides on the proposed config. Left out: as in the run that is continued."""
    model: str
    """`tiny` (shipped), a checkpoint directory or a hub id."""
    seed: int = Field(default=0, ge=0)
    stage0_seed: int | None = Field(default=None, ge=0)
    """Seed of stage 0; the curriculum's seed if left out. Runs that are compared share it."""
    stages: int = Field(default=3, ge=1, le=100)
    agents: int = Field(default=2, ge=MIN_AGENTS, le=MAX_AGENTS)
    instances: int = Field(ge=1)
    """Training instances of a stage."""
    epochs: float = Field(default=1, gt=0)
    """Passes over them in a stage."""
    prompt_style: PromptStyle = PromptStyle.BOARD
    max_answer_tokens: int = Field(ge=8)
    """Longest answer in evaluation; training uses `trl.max_completion_length`."""
    space: ConfigSpace
    default_config: EnvConfig
    """Environment config of stage 0."""
    validation: ValidationSpec = ValidationSpec()
    engine: EngineConfig = EngineConfig()
    rewards: RewardWeights = RewardWeights()
    design: DesignSpec = DesignSpec()
    training: TrainingSettings = TrainingSettings()
    trl: dict[str, Any] = Field(default_factory=dict)
    """Options of `trl.GRPOConfig` under their own names."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.design.variant not in VARIANTS:
            raise ValueError(f"design.variant {self.design.variant!r} is not one of {', '.join(VARIANTS)}")
        if tuple(self.default_config.sizes) != self.space.map_sizes:
            raise ValueError(f"default_config names the map sizes {list(self.default_config.sizes)}, space names {list(self.space.map_sizes)}; name the same")
        low, high = self.space.min_hole_ratio, self.space.max_hole_ratio
        for size, knobs in self.default_config.sizes.items():
            if not low <= knobs.hole_ratio <= high:
                raise ValueError(f"default_config.sizes.{size}.hole_ratio {knobs.hole_ratio:g} is outside of the space, {low:g} to {high:g}; move it inside")
        return self

    def asked_design(self) -> DesignSpec:
        """The design spec that a designer works with: the shipped policies were taught the compact wording and short answers."""
        if self.model not in SHIPPED or find_designer(self.design.designer).asks is None:
            return self.design
        return self.design.model_copy(update={"wording": "compact", "max_tokens": min(self.design.max_tokens, TINY_DESIGN_TOKENS)})

    def stage_seed(self, stage: int) -> int:
        """The seed that a stage's training data and training are drawn with."""
        return self.stage0_seed if stage == 0 and self.stage0_seed is not None else self.seed


# Broken text, a date such as 2020-13-45, or endless nesting.
_YAML_ERRORS = (yaml.YAMLError, ValueError, RecursionError)


class _Loader(yaml.SafeLoader):
    """Safe YAML in which `1e-4` is a number, as in YAML 1.2; PyYAML wants `1.0e-4`."""


# And in which `gate: off` is a word: in YAML 1.2 only true and false are booleans.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"] for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"), list("-+.0123456789"))


def load_preset(name: str, overrides: dict[str, Any] | None = None) -> Preset:
    """A shipped preset by name, or a YAML file by path, with dotted overrides; ConfigError names file and field."""
    path = preset_path(name)
    raw = read_yaml(path)
    for key, value in (overrides or {}).items():
        _set(raw, key, value)
    try:
        preset = Preset.model_validate(raw)
        check_trl_options(preset.trl)
        check_training(preset.training)
        Batches.of(preset.trl, Sharding.of(preset.training).processes)
        preset = preset.model_copy(update={"design": resolve(preset.design, preset.space, preset.stages)})
        for _, config, count in [("stage 0", preset.default_config, preset.instances), *preset.validation.configs(preset.space.map_sizes)]:
            quotas(config, count, preset.agents)
        check_lengths(preset)
    except ValidationError as error:
        raise ConfigError(describe_validation_error(error, str(path))) from None
    except (ConfigError, SamplingError) as error:
        raise ConfigError(f"{path}: {error}") from None
    if "num_train_epochs" in preset.trl:
        raise ConfigError(f"{path}: trl.num_train_epochs: set the preset's own 'epochs' instead")
    return preset


def load_recipe(path: Path | None, overrides: dict[str, Any]) -> BootstrapRecipe:
    """The recipe of a base policy, the shipped one for None, with dotted overrides; ConfigError names file and field."""
    path = path or RECIPE
    raw = read_yaml(path)
    for key, value in overrides.items():
        _set(raw, key, value)
    try:
        return BootstrapRecipe.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(describe_validation_error(error, str(path))) from None


def preset_path(name: str) -> Path:
    """The file of a preset, shipped or given by path; ConfigError if there is none."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else PRESETS / f"{name}.yaml"
    if not path.is_file():
        shipped = ", ".join(sorted(p.stem for p in PRESETS.glob("*.yaml")))
        raise ConfigError(f"{name}: no such preset; the shipped ones are {shipped}, or give the path of a YAML file")
    return path


def load_env_config(path: Path) -> EnvConfig:
    """An environment config from a YAML file; ConfigError names file and field."""
    raw = read_yaml(path)
    if "default_config" in raw:
        raise ConfigError(f"{path}: is a preset, not an environment config; give a file that holds its default_config alone, which begins with sizes:")
    try:
        return EnvConfig.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(describe_validation_error(error, str(path))) from None


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML mapping, read safely; DataError names file and line."""
    try:
        raw = _load_yaml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, *_YAML_ERRORS) as error:
        raise DataError(f"{path}: not readable as YAML: {error}") from None
    if not isinstance(raw, dict):
        raise DataError(f"{path}: holds {type(raw).__name__}, expected a mapping of fields")
    return raw


def parse_override(text: str) -> tuple[str, Any]:
    """`a.b=c` as (dotted key, value); the value is read as YAML."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise ConfigError(f"--set {text!r}: expected KEY=VALUE, for example --set trl.learning_rate=1e-4")
    try:
        return key, _load_yaml(value)
    except _YAML_ERRORS:
        return key, value


def resolved_json(preset: Preset) -> dict[str, Any]:
    """The preset as plain JSON values, defaults filled in."""
    return json.loads(preset.model_dump_json())


def _load_yaml(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)


def _set(raw: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    node: dict[Any, Any] = raw
    for part in parents:
        key = int(part) if part.isdecimal() else part
        node = node.setdefault(key, {})
        if not isinstance(node, dict):
            raise ConfigError(f"--set {dotted}: {part!r} is a value, not a group of fields")
    node[int(last) if last.isdecimal() else last] = value
