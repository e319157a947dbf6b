"""The recipe of a warm start, and the questions and answers that it teaches; imports without torch."""

import random
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from envgen.config import EnvConfig
from envgen.environment import Environment, Source
from envgen.errors import ShortageError
from envgen.estimates import Rate
from envgen.frozen import Frozen
from envgen.registry import EnvironmentSpec
from envgen.seeds import seed_integer

RATES = "rates.json"
"""Beside the weights of a policy that was warm-started: `Taught`."""
EVALUATION_SEED = 20_262


class WarmStartRecipe(Frozen):
    """How a chat model is taught."""

    seed: int = Field(default=0, ge=0)
    steps: int = Field(default=200, ge=2)
    """Optimizer steps, each on one batch."""
    batch_size: int = Field(default=8, ge=1)
    """Questions of a batch; lower it where memory is short."""
    learning_rate: float = Field(default=5e-5, gt=0)
    """Peak; adapters need about ten times as much."""
    lora: dict[str, Any] | None = None
    """Options of `peft.LoraConfig` by their own names: adapters are trained, and merged into the model at the
    end. Left out, all weights are trained."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights while they are trained."""
    bf16: bool = False
    """Whether steps are computed in bfloat16, under autocast, with weights as they are. Faster where a
    processor has it; a model of a million weights does not learn so."""
    gradient_checkpointing: bool = False
    """Whether activations are computed twice, to save memory."""
    save_steps: int = Field(default=50, ge=1)
    """Steps from one complete checkpoint to the next."""
    evaluation_instances: int = Field(default=40, ge=1)
    """Instances of each stratum that the model is evaluated on before and after."""


class WarmStartSpec(Frozen):
    """Spec of the training child."""

    recipe: WarmStartRecipe
    model: str
    """Chat model by name, folder or hub id; it keeps its tokenizer and chat template."""
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    environment: EnvironmentSpec
    style: str
    """Prompt style of the questions."""
    config: EnvConfig
    """Config that questions are drawn from."""
    answer_tokens: int
    """Longest answer in the evaluations."""
    held_out: tuple[str, ...] = ()
    """Ids of the instances that are never taught."""
    work: Path
    """Folder of the trainer's checkpoints."""
    output: Path

    @property
    def task(self) -> Environment:
        """The environment."""
        return self.environment.load()


Rates = dict[str, Rate]
"""Stratum -> valid rate of greedy answers."""


class Taught(Frozen):
    """How a policy was warm-started, with its valid rates on instances that it was not taught."""

    model: str
    steps: int
    before: Rates
    after: Rates


def examples(spec: WarmStartSpec) -> list[tuple[str, str]]:
    """Draw the questions of all steps with their references, in random order; a stratum with too few
    instances repeats them. ShortageError if it has none."""
    task, recipe, held_out = spec.task, spec.recipe, frozenset(spec.held_out)
    source = Source(recipe.seed, purpose="warm-start")
    pairs: list[tuple[str, str]] = []
    for name, wanted in spec.config.counts(recipe.steps * recipe.batch_size).items():
        drawn = _available(task, name, spec.config.strata[name].knobs, wanted, source, held_out)
        if wanted and not drawn:
            short = f"{task.space.label(name)}: no instance exists beside those held out"
            raise ShortageError(f"{short}; change its knobs in default_config", [])
        answered = [(task.prompt(each, spec.style), task.reference(each)) for each in drawn]
        pairs += islice(cycle(answered), wanted)
    random.Random(seed_integer(recipe.seed, "warm-start")).shuffle(pairs)
    return pairs


def evaluation_instances(spec: WarmStartSpec) -> list[Any]:
    """Return the instances to evaluate on: the same number of each stratum, or as many as exist."""
    draw = spec.recipe.evaluation_instances, Source(EVALUATION_SEED, purpose="evaluation"), frozenset[str]()
    return [
        instance
        for name, part in spec.config.strata.items()
        if part.data_ratio
        for instance in _available(spec.task, name, part.knobs, *draw)
    ]


def _available(task: Environment, *draw: Any) -> list[Any]:
    """Return the instances of a draw; where there are too few, those that exist."""
    try:
        return task.generate(*draw).instances
    except ShortageError as error:
        return error.instances
