"""The recipe of a warm start, and the questions and answers that it teaches; imports without torch.

Batches are numbered, and each follows from the recipe and its number: a warm start that was cut off continues
with the batches after its last checkpoint.
"""

import random
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from envgen.breakdown import Rate
from envgen.config import SHARE, EnvConfig, Part
from envgen.environment import Environment, Source
from envgen.errors import ShortageError
from envgen.frozen import Frozen
from envgen.registry import EnvironmentSpec
from envgen.seeds import seed_integer

HELD_OUT = "held-out.json"
"""File in the work folder: ids of the instances that are never taught."""
RATES = "rates.json"
"""Beside the weights of a policy that was warm-started: `Taught`."""
CHUNK = 64
"""Batches that are drawn together."""
EVALUATION_SEED = 20_262
Example = tuple[str, str]
"""A question and its answer."""


class Lesson(Frozen):
    """What is taught of one environment."""

    name: str
    """Name in logs and in the table of rates."""
    environment: EnvironmentSpec
    prompt_style: str = ""
    """The usual one of the environment if left out."""
    weight: float = Field(default=1.0, gt=0)
    """Share of the lesson, before the shares are scaled to sum to 1."""
    config: EnvConfig | None = None
    """Config that questions are drawn from; equal shares and default knobs if left out."""

    @property
    def task(self) -> Environment:
        """The environment."""
        return self.environment.load()

    @property
    def style(self) -> str:
        """The prompt style."""
        return self.prompt_style or self.task.styles[0]

    @property
    def parts(self) -> dict[str, Part]:
        """Strata with a share, and what is drawn of each."""
        config, space = self.config, self.task.space
        if config is None:
            share = {SHARE: 1 / len(space.strata)}
            knobs = {s.name: {knob.name: knob.default for knob in s.knobs} for s in space.strata}
            config = space.config({name: Part.model_validate(share | knobs[name]) for name in space.names})
        return {name: part for name, part in config.strata.items() if part.data_ratio}

    @field_validator("environment")
    @classmethod
    def _resolved(cls, environment: EnvironmentSpec, info: ValidationInfo) -> EnvironmentSpec:
        return environment.resolved((info.context or {}).get("folder", Path()))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.style not in self.task.styles:
            raise ValueError(f"prompt_style {self.style!r} is not one of {', '.join(self.task.styles)}")
        if self.config is not None:
            try:
                self.task.space.check(self.config)
            except ValueError as error:
                raise ValueError(f"config.{error}") from None
        return self


class WarmStartRecipe(Frozen):
    """What a chat model is taught, and how it is trained."""

    seed: int = Field(default=0, ge=0)
    model: str
    """Chat model by name, folder or hub id; it keeps its tokenizer and chat template."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights while they are trained."""
    lora: dict[str, Any] | None = None
    """Options of `peft.LoraConfig` by their own names: adapters are trained, and merged into `model` at the
    end. Left out, all weights are trained."""
    bf16: bool = False
    """Whether steps are computed in bfloat16, under autocast, with weights as they are. Faster where a
    processor has it; a model of a million weights does not learn so."""
    gradient_checkpointing: bool = False
    """Whether activations are computed twice, to save memory."""
    presets: tuple[str, ...] = ()
    """Presets whose validation and tuning sets are never taught."""
    lessons: tuple[Lesson, ...] = Field(min_length=1)
    evaluation_instances: int = Field(default=40, ge=1)
    """Instances of each stratum that the model is evaluated on before and after."""
    longest_answer: int = Field(default=128, ge=8)
    """Tokens of an answer in these evaluations."""
    steps: int = Field(default=200, ge=2)
    """Optimizer steps, each on one batch."""
    warmup_steps: int = Field(default=10, ge=0)
    decay_from: float = Field(default=0.5, ge=0, le=1)
    """Share of the steps after which the learning rate falls, linearly, to 2 % of its peak."""
    batch_size: int = Field(default=8, ge=1)
    """Questions of a batch; lower it where memory is short."""
    learning_rate: float = Field(default=5e-5, gt=0)
    """Peak; adapters take ten times as much."""
    save_steps: int = Field(default=50, ge=1)
    """Steps from one complete checkpoint to the next."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.warmup_steps > self.decay_from * self.steps:
            raise ValueError(
                f"warmup_steps {self.warmup_steps} end after decay_from {self.decay_from:g} of {self.steps} "
                "steps; warm up for less"
            )
        return self


Rates = dict[str, dict[str, Rate]]
"""Lesson -> stratum -> valid rate of greedy answers."""


class Taught(Frozen):
    """How a policy was warm-started, with its valid rates on instances that it was not taught."""

    model: str
    steps: int
    before: Rates
    after: Rates


class WarmStartSpec(Frozen):
    """Spec of the training child."""

    recipe: WarmStartRecipe
    work: Path
    """Folder of `HELD_OUT` and the trainer's checkpoints."""
    output: Path


def batches(recipe: WarmStartRecipe, held_out: frozenset[str], first: int = 0) -> Iterator[list[Example]]:
    """Batches `first` to `steps - 1`, without instances of an id in `held_out`."""
    drawn: list[list[Example]] = []
    for number in range(first, recipe.steps):
        chunk, place = divmod(number, CHUNK)
        if not drawn or place == 0:
            examples, size = lesson_examples(recipe, held_out, chunk), recipe.batch_size
            random.Random(seed_integer(recipe.seed, "batches", chunk)).shuffle(examples)
            drawn = [examples[start : start + size] for start in range(0, len(examples), size)]
        # Rounded counts may have left a chunk without its last batch.
        yield drawn[place % len(drawn)]


def lesson_examples(recipe: WarmStartRecipe, held_out: frozenset[str], chunk: int) -> list[Example]:
    """About CHUNK batches of questions with their references, the same for the same chunk."""
    total = sum(lesson.weight for lesson in recipe.lessons)
    examples: list[Example] = []
    for lesson in recipe.lessons:
        task, parts, source = lesson.task, lesson.parts, Source(recipe.seed, chunk, "bootstrap")
        count = max(1, round(recipe.batch_size * CHUNK * lesson.weight / total))
        for name, wanted in task.space.config(parts).counts(count).items():
            drawn = _available(task, name, parts[name].knobs, wanted, source, held_out)
            if wanted and not drawn:
                short = f"lesson {lesson.name}: no instance of {task.space.label(name)} exists"
                raise ShortageError(f"{short} beside those held out; change its knobs in config", [])
            pairs = [(task.prompt(each, lesson.style), task.reference(each)) for each in drawn]
            examples += islice(cycle(pairs), wanted)
    return examples


def _available(task: Environment, *draw: Any) -> list[Any]:
    """Return the instances of a draw; where there are too few, those that exist."""
    try:
        return task.generate(*draw).instances
    except ShortageError as error:
        return error.instances


def evaluation_instances(lesson: Lesson, count: int) -> list[Any]:
    """Return the instances to evaluate on: `count` of each stratum, or as many as exist."""
    source = Source(EVALUATION_SEED, purpose="bootstrap-evaluation-0")
    return [
        instance
        for name, part in lesson.parts.items()
        for instance in _available(lesson.task, name, part.knobs, count, source, frozenset())
    ]
