"""The recipe of a base policy, made from nothing or from a chat model. Imports without torch."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from envgen.breakdown import Rate
from envgen.config import SHARE, EnvConfig
from envgen.environment import Environment
from envgen.frozen import Frozen
from envgen.registry import EnvironmentSpec
from envgen.space import Space

RECIPE = Path(__file__).parent / "recipe.yaml"
"""The recipe of the shipped base policy."""
CHAT = Path(__file__).parent / "chat.yaml"
"""What a recipe with a `model` leaves out."""
HELD_OUT, DESIGNS = "held-out.json", "designs.json"
"""Ids of the instances that are never taught, a list, and design questions with the answers to learn."""


def _named(strata: Any) -> Any:
    """YAML reads `3:` as a number."""
    return {str(name): part for name, part in strata.items()} if isinstance(strata, dict) else strata


class Mixture(Frozen):
    """Which instances of an environment, as configs in equal parts."""

    strata: Annotated[dict[str, dict[str, float]], BeforeValidator(_named), Field(min_length=1)] | None = None
    """Stratum -> its `data_ratio` (1 if left out), before these are scaled to sum to 1, and knobs; every
    stratum of the environment if left out."""
    knobs: dict[str, float] = {}
    """Knobs of the strata that do not have their own; the default of the environment if left out."""
    grid: dict[str, tuple[float, ...]] = {}
    """Knob -> values, every combination of which is a config."""

    def named(self, space: Space) -> dict[str, dict[str, float]]:
        """The strata; where none are named, all of a space."""
        return self.strata or {name: {} for name in space.names}

    def parts(self, space: Space) -> Iterator[tuple[tuple[float, ...], EnvConfig]]:
        """(values of the grid, config) of each combination."""
        strata = self.named(space)
        total = sum(part.get(SHARE, 1.0) for part in strata.values())
        for values in product(*self.grid.values()):
            common = {**self.knobs, **dict(zip(self.grid, values, strict=True))}
            parts = {}
            for name, part in strata.items():
                defaults = {knob.name: knob.default for knob in space[name].knobs}
                knobs = {knob: value for knob, value in common.items() if knob in defaults}
                parts[name] = {**defaults, **knobs, **part, SHARE: part.get(SHARE, 1.0) / total}
            yield values, EnvConfig.model_validate({space.key: parts})

    def check(self, space: Space) -> None:
        """ValueError names the first stratum or knob that the environment does not have."""
        knobs = [knob.name for knob in space.knobs]
        for name, part in self.named(space).items():
            if name not in space.names:
                raise ValueError(f"strata: {name!r} is none of {', '.join(space.names)}")
            for field in (*part, *self.knobs, *self.grid):
                if field != SHARE and field not in knobs:
                    raise ValueError(f"{field}: there is no such knob; known are {', '.join(knobs)}")


class Lesson(Frozen):
    """What is taught of one environment."""

    name: str
    """As logs call it."""
    environment: EnvironmentSpec
    prompt_style: str = ""
    """The usual one of the environment if left out."""
    weight: float = Field(default=1.0, gt=0)
    """Share of the lesson, before the shares are scaled to sum to 1."""
    taught: Mixture = Mixture()

    @property
    def task(self) -> Environment:
        """The environment."""
        return self.environment.load()

    @property
    def style(self) -> str:
        """The prompt style."""
        return self.prompt_style or self.task.styles[0]

    @field_validator("environment")
    @classmethod
    def _resolved(cls, environment: EnvironmentSpec, info: ValidationInfo) -> EnvironmentSpec:
        return environment.resolved((info.context or {}).get("folder", Path()))

    @model_validator(mode="after")
    def _check(self) -> Self:
        task = self.task
        if self.style not in task.styles:
            raise ValueError(f"prompt_style {self.style!r} is not one of {', '.join(task.styles)}")
        try:
            self.taught.check(task.space)
        except ValueError as error:
            raise ValueError(f"taught.{error}") from None
        return self


class BootstrapRecipe(Frozen):
    """Corpus, shape and training of a base policy."""

    seed: int = Field(default=0, ge=0)
    model: str | None = None
    """A chat model, by name, folder or hub id, that is taught, with its own tokenizer and chat template; left
    out, a new one of the three sizes below."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the weights of `model` while it is taught."""
    lora: dict[str, Any] | None = None
    """Options of `peft.LoraConfig` by their own names: adapters are trained, and merged into `model` at the
    end. Left out, all weights are trained."""
    bf16: bool = False
    """Whether steps are computed in bfloat16, under autocast, with weights as they are. Faster where a
    processor has it; a model of a million weights does not learn so."""
    gradient_checkpointing: bool = False
    """Whether activations are computed twice, to save memory."""
    hidden_size: int | None = Field(default=None, ge=8)
    layers: int | None = Field(default=None, ge=1)
    heads: int | None = Field(default=None, ge=1)
    presets: tuple[str, ...] = ()
    """Presets whose validation and tuning sets are never taught; the policy learns to design for the
    environment of the first, which it has to have unless `designs_from` is 1."""
    lessons: tuple[Lesson, ...] = Field(min_length=1)
    evaluation_instances: int = Field(default=40, ge=1)
    """Of each stratum that checkpoints are evaluated on, with the knobs of what is taught."""
    longest_answer: int = Field(default=128, ge=8)
    """Tokens of an answer in these evaluations."""
    steps: int = Field(ge=2)
    """Optimizer steps, each on one batch."""
    warmup_steps: int = Field(default=100, ge=0)
    decay_from: float = Field(default=0.5, ge=0, le=1)
    """Share of the steps after which the learning rates fall, linearly, to 2 % of their peak."""
    designs_from: float = Field(default=0.5, ge=0, le=1)
    """Share of the steps after which the design task is taught beside the lessons; 1: never."""
    designs_every: int = Field(default=3, ge=2)
    """From then on every so many batches one is of design questions."""
    batch_size: int = Field(default=128, ge=1)
    """Questions of a batch."""
    design_batch_size: int = Field(default=32, ge=1)
    """Design questions of a batch."""
    muon_learning_rate: float | None = Field(default=0.02, gt=0)
    """Peak, of the weight matrices; null: AdamW for these too."""
    adamw_learning_rate: float = Field(default=4e-3, gt=0)
    """Peak, of all that Muon does not train."""
    save_steps: int = Field(default=500, ge=1)
    """Steps from one complete checkpoint, and one evaluation, to the next."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_shape()
        if not self.presets and self.designs_from < 1:
            raise ValueError(
                "presets: names none, whose environment the design questions are of; name one, or set"
                " designs_from to 1"
            )
        if self.warmup_steps > self.decay_from * self.steps:
            raise ValueError(
                f"warmup_steps {self.warmup_steps} end after decay_from {self.decay_from:g} of {self.steps} "
                "steps; warm up for less"
            )
        return self

    def _check_shape(self) -> None:
        sizes = (self.hidden_size, self.layers, self.heads)
        if self.model is not None and any(sizes):
            raise ValueError(
                f"model {self.model}: has a shape already; leave hidden_size, layers and heads out"
            )
        if self.model is None and (self.lora is not None or self.dtype != "float32"):
            raise ValueError(
                "lora and dtype: are for weights that are there; name a model, or leave both out"
            )
        if self.model is None and None in sizes:
            raise ValueError(
                "model: is missing; name a chat model, or give hidden_size, layers and heads of a new one"
            )
        hidden, heads = self.hidden_size or 0, self.heads or 1
        if hidden % (2 * heads):
            raise ValueError(
                f"hidden_size {hidden} does not give {heads} heads an even number of dimensions each"
            )


Rates = dict[str, dict[str, Rate]]
"""Lesson -> stratum -> valid rate of greedy answers."""
RATES = "rates.json"
"""Beside the weights of a policy that was warm-started: `Taught`."""


class Taught(Frozen):
    """How a policy was warm-started, with its valid rates on instances that it was not taught."""

    model: str | None
    """The chat model that it was; None: its weights were random."""
    steps: int
    before: Rates
    """Empty for random weights."""
    after: Rates


class BootstrapSpec(Frozen):
    """Spec of the bootstrap child."""

    recipe: BootstrapRecipe
    work: Path
    """Folder of `HELD_OUT`, `DESIGNS` and the trainer's checkpoints."""
    output: Path
