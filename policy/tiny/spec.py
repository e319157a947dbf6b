"""The recipe of a base policy. Imports without torch."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from envgen.config import SHARE, EnvConfig
from envgen.families import FamilySpec
from envgen.family import Space, TaskFamily
from envgen.frozen import Frozen

RECIPE = Path(__file__).parent / "recipe.yaml"
"""The recipe of the shipped base policy."""


def _named(strata: Any) -> Any:
    """YAML reads `3:` as a number."""
    return {str(name): given for name, given in strata.items()} if isinstance(strata, dict) else strata


class Mixture(Frozen):
    """Which instances of a family, as configs in equal parts."""

    strata: Annotated[dict[str, dict[str, float]], BeforeValidator(_named)] = Field(min_length=1)
    """Stratum -> its `data_ratio` (1 if left out), before these are scaled to sum to 1, and knobs."""
    knobs: dict[str, float] = {}
    """Knobs of the strata that do not have their own; the default of the family if left out."""
    grid: dict[str, tuple[float, ...]] = {}
    """Knob -> values, every combination of which is a config."""

    def parts(self, space: Space) -> Iterator[tuple[tuple[float, ...], EnvConfig]]:
        """(values of the grid, config) of each combination."""
        total = sum(given.get(SHARE, 1.0) for given in self.strata.values())
        for values in product(*self.grid.values()):
            common = {**self.knobs, **dict(zip(self.grid, values, strict=True))}
            parts = {}
            for name, given in self.strata.items():
                defaults = {knob.name: knob.default for knob in space[name].knobs}
                known = {knob: value for knob, value in common.items() if knob in defaults}
                parts[name] = {**defaults, **known, **given, SHARE: given.get(SHARE, 1.0) / total}
            yield values, EnvConfig.model_validate({space.key: parts})

    def check(self, space: Space) -> None:
        """ValueError names the first stratum or knob that the family does not have."""
        knobs = [knob.name for knob in space.knobs]
        for name, given in self.strata.items():
            if name not in space.names:
                raise ValueError(f"strata: {name!r} is none of {', '.join(space.names)}")
            for field in (*given, *self.knobs, *self.grid):
                if field != SHARE and field not in knobs:
                    raise ValueError(f"{field}: there is no such knob; known are {', '.join(knobs)}")


class Lesson(Frozen):
    """What is taught of one family."""

    name: str
    """As logs call it."""
    family: FamilySpec
    prompt_style: str = ""
    """The usual one of the family if left out."""
    weight: float = Field(default=1.0, gt=0)
    """Share of the lesson, before the shares are scaled to sum to 1."""
    taught: Mixture
    evaluated: Mixture
    """What checkpoints are evaluated on, stratum by stratum, whatever their `data_ratio`."""

    @property
    def task(self) -> TaskFamily:
        """The family."""
        return self.family.load()

    @property
    def style(self) -> str:
        """The prompt style."""
        return self.prompt_style or self.task.styles[0]

    @field_validator("family")
    @classmethod
    def _resolved(cls, family: FamilySpec, info: ValidationInfo) -> FamilySpec:
        return family.resolved((info.context or {}).get("folder", Path()))

    @model_validator(mode="after")
    def _check(self) -> Self:
        task = self.task
        if self.style not in task.styles:
            raise ValueError(f"prompt_style {self.style!r} is not one of {', '.join(task.styles)}")
        for field in ("taught", "evaluated"):
            try:
                getattr(self, field).check(task.space)
            except ValueError as error:
                raise ValueError(f"{field}.{error}") from None
        return self


class BootstrapRecipe(Frozen):
    """Corpus, shape and training of a base policy."""

    seed: int = Field(default=0, ge=0)
    hidden_size: int = Field(ge=8)
    layers: int = Field(ge=1)
    heads: int = Field(ge=1)
    presets: tuple[str, ...] = Field(min_length=1)
    """Presets whose validation and tuning sets are never taught; the policy learns to design for the family
    of the first."""
    lessons: tuple[Lesson, ...] = Field(min_length=1)
    evaluation_instances: int = Field(default=40, ge=1)
    """Of each stratum and combination that checkpoints are evaluated on."""
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
    muon_learning_rate: float = Field(default=0.02, gt=0)
    """Peak, of the weight matrices."""
    adamw_learning_rate: float = Field(default=4e-3, gt=0)
    """Peak, of embeddings and norms."""
    save_steps: int = Field(default=500, ge=1)
    """Steps from one complete checkpoint, and one evaluation, to the next."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hidden_size % (2 * self.heads):
            raise ValueError(
                f"hidden_size {self.hidden_size} does not give {self.heads} heads an even number of "
                "dimensions each"
            )
        if self.warmup_steps > self.decay_from * self.steps:
            raise ValueError(
                f"warmup_steps {self.warmup_steps} end after decay_from {self.decay_from:g} of {self.steps} "
                "steps; warm up for less"
            )
        return self


class BootstrapSpec(Frozen):
    """What the bootstrap child is told."""

    recipe: BootstrapRecipe
    held_out: Path
    """JSON list of the ids of instances that must not be taught."""
    designs: Path
    """Design questions with the answers to learn."""
    evaluation: tuple[Path, ...]
    """Instances to evaluate on, a data set a lesson."""
    work: Path
    """Checkpoints of the trainer."""
    output: Path
