"""Presets: everything that decides a curriculum, as sparse commented YAML in and one resolved JSON out."""

import difflib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, WrapSerializer, model_validator

from engineer.engineers.guards import Random
from engineer.engineers.registry import asks, resolve
from engineer.spec import EngineerSpec, located
from envgen.config import EnvConfig
from envgen.environment import Environment
from envgen.errors import ConfigError, ModelError, SamplingError, describe_validation_error
from envgen.frozen import Frozen
from envgen.registry import EnvironmentSpec
from envgen.seeds import Seed, generator
from envgen.space import Space
from envgen.yaml_files import read_yaml
from infra.config.dotted import set_field
from infra.config.sets import EvaluationSpec, TestSpec, ValidationSpec, check_capacity
from infra.config.settings import Stem
from policy.chat.engine_config import EngineConfig
from policy.checkpoints import is_simulated, max_positions, prompt_tokens
from policy.grpo.check import CheckSpec, TrainingPlan, plan_training
from policy.grpo.launch import check_training, process_count
from policy.grpo.rewards import DEFAULT_WEIGHTS, RewardWeights
from policy.grpo.train_spec import TrainingSettings, answer_tokens, check_trl_options, deciding_options

PRESETS = Path(__file__).parent / "presets"
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
RANDOM = "random"
START_DRAWS = 100
"""Random configs that are tried for stage 0."""
TUNING_SEED = 20_270
"""Seed of the tuning set: `--set validation.seed=20270` judges on other instances."""


def _read_start(value: Any) -> Any:
    if value is None:
        raise ValueError("is empty; give a config, or random")
    return None if value == RANDOM else value


StartConfig = Annotated[
    EnvConfig | None,
    BeforeValidator(_read_start),
    WrapSerializer(lambda config, write: RANDOM if config is None else write(config)),
]
"""A config, or None for one that is drawn; `random` in files."""


class Preset(Frozen, use_attribute_docstrings=True):
    """A curriculum: policy, environment, training, engineer."""

    name: Stem
    """Part of the name of a run directory, and of MLflow's experiment."""
    description: str = ""
    """A line for lists of presets."""
    approval: Literal["none", "required"] | None = None
    """`required`: a person decides on each proposed config before the next stage. Left out: as in the run
    that is continued."""
    model: str = Field(pattern=r"^[^\x00-\x1f]{1,500}$")
    """`tiny` or `tiny-puzzles` (shipped), `simulated` (a simulated learner), a checkpoint directory, or a hub
    id, whose commit is fixed when a run begins."""
    seed: Seed = 0
    """Seed of everything random but validation and test set. A preset and a seed give the same data sets."""
    stages: int = Field(default=3, ge=1, le=100)
    """Stages of training, each on its own config. A finished run can be extended by more."""
    environment: EnvironmentSpec = EnvironmentSpec()
    """The environment, with its options."""
    instances: int = Field(ge=1, le=1_000_000)
    """Training instances of a stage."""
    epochs: float = Field(default=1, gt=0, allow_inf_nan=False)
    """Passes over the training instances in a stage."""
    prompt_style: str = ""
    """How instances are put into words; the usual way of the environment if left out."""
    max_answer_tokens: int = Field(ge=8, le=1_000_000)
    """Longest answer in evaluation; training uses `trl.max_completion_length`."""
    chat_template_kwargs: dict[Variable, Any] = Field(default_factory=dict)
    """Variables of the model's chat template, as `{enable_thinking: false}`, for training, evaluation, warm
    start and engineer; each stage's checkpoint has them as defaults."""
    default_config: StartConfig
    """Environment config of stage 0; `random` draws one from the config space by the seed, so that the arms
    of a comparison share it."""
    unsolved: Literal["stop", "train"] = "stop"
    """What happens if the base policy solves no validation instance, so that there is hardly anything to
    learn from."""
    validation: ValidationSpec = ValidationSpec()
    """The fixed set that every policy is judged on."""
    test: TestSpec | None = None
    """A set that every policy answers too, and that neither engineer nor gate sees; none if left out."""
    evaluation: EvaluationSpec = EvaluationSpec()
    """How often and how both sets are answered."""
    engine: EngineConfig = EngineConfig()
    """What generates answers outside of training."""
    rewards: RewardWeights = DEFAULT_WEIGHTS
    """Weights of a training reward's terms."""
    engineer: EngineerSpec = EngineerSpec()
    """Who designs the next config."""
    training: TrainingSettings = TrainingSettings()
    """How training is started."""
    trl: dict[str, Any] = Field(default_factory=dict)
    """Options of `trl.GRPOConfig` under their own names."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.prompt_style not in self.task.styles:
            styles = ", ".join(self.task.styles)
            raise ValueError(f"prompt_style {self.prompt_style!r} is not one of {styles}")
        if self.test and self.approval == "required":
            raise ValueError("test: who approves proposals would see it; leave out test, or approval")
        self.rewards.check(self.task)
        field = "default_config"
        try:
            if self.default_config:
                self.space.check(self.default_config)
            field = "validation"
            self.validation.parts(self.space)
        except ValueError as error:
            raise ValueError(f"{field}.{error}") from None
        return self

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, value: Any, info: ValidationInfo) -> Any:
        """Fill in the environment's options, paths from the context's `folder`, and its first style."""
        if not isinstance(value, dict):
            return value
        folder = (info.context or {}).get("folder", Path())
        try:
            environment = EnvironmentSpec.model_validate(value.get("environment", {})).resolved(folder)
        except ValidationError:
            return value  # said of the field
        style = value.get("prompt_style") or environment.load().styles[0]
        return {**value, "environment": environment, "prompt_style": style}

    @property
    def task(self) -> Environment:
        """The environment."""
        return self.environment.load()

    @property
    def space(self) -> Space:
        """Which configs are legal."""
        return self.task.space

    @property
    def start_config(self) -> EnvConfig:
        """The config of stage 0; ConfigError if none of `START_DRAWS` random ones can be drawn."""
        if self.default_config:
            return self.default_config
        rng, error = generator(self.seed, "start"), None
        for _ in range(START_DRAWS):
            config = Random().draw(self.space, rng)
            try:
                self.check_start(config)
                return config
            except (ConfigError, SamplingError) as reason:
                error = reason
        problem = f"none of {START_DRAWS} random configs can be drawn; of the last: {error}"
        raise ConfigError(f"default_config: {problem}") from error

    def check_start(self, config: EnvConfig) -> None:
        """Raise SamplingError or ConfigError if the instances of a config cannot be drawn for stage 0."""
        self.task.check(config, self.instances)
        check_capacity(self.task, self.validation, self.test, config, self.instances)

    def prompt_tokens(self) -> int | None:
        """Tokens of the longest prompt of an instance; None if the model's tokenizer is not here."""
        return prompt_tokens(self.model, self.task.longest_prompt(self.prompt_style))

    def check_spec(self) -> CheckSpec:
        """The options of a stage of training, for a check by the installed TRL."""
        return CheckSpec(
            trl={**self.trl, "num_train_epochs": self.epochs},
            lora=self.training.lora,
            processes=process_count(self.training),
            instances=self.instances,
        )

    def plan(self) -> TrainingPlan | None:
        """The sizes of training by the installed TRL, None for the simulated learner; ConfigError."""
        return None if is_simulated(self.model) else plan_training(self.check_spec())

    def check_lengths(self) -> None:
        """ConfigError if a prompt and the longest answer do not fit engine, vLLM or model."""
        try:
            asked, positions = self.prompt_tokens() or 0, max_positions(self.model)
        except ModelError:  # the checkpoint may be made before the run, which says so if it is not
            return
        engine = {"engine.max_model_len": self.engine.max_model_len, "the model's limit": positions}
        vllm = self.trl.get("vllm_max_model_length")
        training = {"trl.vllm_max_model_length": vllm, "the model's limit": positions}
        lengths = [
            ("max_answer_tokens", self.max_answer_tokens, asked, engine),
            ("trl.max_completion_length", answer_tokens(self.trl), asked, training),
        ]
        if asks(self.engineer.name) is not None:
            lengths.append(("engineer.max_tokens", self.engineer.max_tokens, 0, engine))
        for field, answer, prompt, limits in lengths:
            for owner, most in limits.items():
                if isinstance(most, int) and answer + prompt > most:
                    problem = f"{answer} tokens and a prompt of {prompt} exceed {owner}, {most}"
                    remedy = f"lower {field}, raise the limit, or change prompt_style"
                    raise ConfigError(f"{field}: {problem}; {remedy}")


def load_preset(name: str, overrides: dict[str, Any] | None = None) -> Preset:
    """Return a preset by its shipped name, by the path of a YAML file or a run's `curriculum.json`, or as
    JSON, with dotted overrides; ConfigError names file and field."""
    if name.lstrip().startswith("{"):
        path = Path("preset")
        try:
            raw = json.loads(name)
        except ValueError as error:
            raise ConfigError(f"preset: is no JSON ({error}); expected all fields of a preset") from None
    else:
        path = preset_path(name)
        raw = read_yaml(path)
        if path.name == "curriculum.json" and isinstance(raw.get("preset"), dict):
            raw = raw["preset"]
    for key, value in (overrides or {}).items():
        # A path in an override starts from the working directory, not from the folder of the preset.
        is_name = key == "engineer.name" and isinstance(value, str)
        set_field(raw, key, located(value, Path()) if is_name else value)
    try:
        preset = Preset.model_validate(raw, context={"folder": path.parent})
        check_trl_options(preset.trl)
        check_training(preset.training)
        deciding_options(preset.trl, preset.training, process_count(preset.training))
        preset = preset.model_copy(update={"engineer": resolve(preset.engineer, preset.space, preset.stages)})
        parts = preset.validation.parts(preset.space)
        if preset.test and preset.test.file:
            preset.test.read(preset.task)
        elif preset.test:
            parts += preset.test.like(preset.validation).parts(preset.space, "test")
        for _, config, count in parts:
            preset.task.check(config, count)
        preset.check_start(preset.start_config)
        preset.check_lengths()
        if is_simulated(preset.model) and asks(preset.engineer.name):
            problem = f"asks the policy, and model {preset.model!r} answers instances only"
            remedy = "choose a rule, as frontier"
            raise ConfigError(f"engineer.name: {preset.engineer.name!r} {problem}; {remedy}")
    except ValidationError as error:
        lines = describe_validation_error(error, str(path)).splitlines()
        raise ConfigError("\n".join(_blame_override(line, path, overrides or {}) for line in lines)) from None
    except (ConfigError, SamplingError) as error:
        raise ConfigError(_blame_override(f"{path}: {error}", path, overrides or {})) from None
    return preset


def _blame_override(message: str, path: Path, overrides: dict[str, Any]) -> str:
    """Return a message `PATH: FIELD: ...`; without the path if an override set the field, or a part of it."""
    text = message.removeprefix(f"{path}: ")
    field = re.split(r"[:\s]", text)[0] + "."
    blamed = any(field.startswith(f"{key}.") or f"{key}.".startswith(field) for key in overrides)
    return text if blamed else message


def shipped_presets() -> tuple[str, ...]:
    """The names of the presets that come with the package."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.yaml")))


def preset_path(name: str) -> Path:
    """The file of a preset, shipped or given by path; ConfigError if there is none."""
    path = Path(name) if name.endswith((".yaml", ".yml", ".json")) else PRESETS / f"{name}.yaml"
    if not path.is_file():
        near = difflib.get_close_matches(name, shipped_presets(), n=2)
        near = [f"./{name}.yaml"] if Path(f"{name}.yaml").is_file() else near
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        shipped = f"the shipped ones are {', '.join(shipped_presets())}, or give the path of a YAML file"
        raise ConfigError(f"{name}: no such preset; {hint}{shipped}")
    return path
