"""The validation set and the test set of a preset: which instances they hold, how they are drawn, and how
they are answered."""

import logging
from itertools import product
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from envgen.config import SHARE, EnvConfig
from envgen.dataset import environment_of, read_dataset
from envgen.environment import Environment, Source
from envgen.errors import ConfigError, DataError
from envgen.files import file_digest
from envgen.frozen import Frozen
from envgen.sampling import sample
from envgen.seeds import Seed
from envgen.space import Space
from policy.chat.contract import Sampling

log = logging.getLogger("envwright")
MOST = 100_000
"""Largest number of instances of a stratum and combination."""


class EvaluationSpec(Frozen, use_attribute_docstrings=True):
    """How every policy answers the instances of validation and test set."""

    samples: int = Field(default=1, ge=1, le=1_000)
    """Answers to each instance; rates are over the mean of its answers (avg@k), intervals over instances."""
    temperature: float = Field(default=0.0, ge=0, le=10)
    """0 is greedy. Above it all policies draw with the same random numbers."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Draw from the likeliest tokens that together have this probability; read above temperature 0."""

    @model_validator(mode="after")
    def _differ(self) -> Self:
        if self.samples > 1 and not self.temperature:
            problem = f"{self.samples} greedy answers to an instance are all the same"
            remedy = "expected 1 at temperature 0; set temperature above 0 too, as the model's maker advises"
            raise ValueError(f"samples: {problem}; {remedy}")
        return self

    @property
    def decides(self) -> dict[str, Any]:
        """What of it decides answers, for content keys: all that is not the default."""
        return self.model_dump(exclude_defaults=True)

    def sampling(self, max_tokens: int) -> Sampling:
        """How completions are drawn."""
        return Sampling(max_tokens=max_tokens, temperature=self.temperature, top_p=self.top_p)


class ValidationSpec(Frozen, use_attribute_docstrings=True):
    """The fixed validation set: for each stratum and combination of knobs the same number of instances."""

    grid: dict[str, tuple[float, ...]] = {}
    """Knob -> its values; one that is left out has the middle of its range."""
    instances: int = Field(default=17, ge=1, le=MOST)
    """Instances of each stratum and combination."""
    strata: tuple[str, ...] = ()
    """Names of strata; all of the space if left out."""
    seed: Seed = 20_260
    """Not the curriculum's seed: every curriculum of a preset is judged on the same instances."""

    def parts(self, space: Space, name: str = "validation") -> list[tuple[str, EnvConfig, int]]:
        """(purpose, config, count) of each part of the set `name`; ValueError for another space."""
        names = {knob.name: knob for knob in space.knobs}
        for knob, values in self.grid.items():
            if knob not in names:
                raise ValueError(f"grid.{knob}: there is no such knob; known are {', '.join(names)}")
            if not values:
                raise ValueError(f"grid.{knob}: has no values; give one, or leave the knob out")
            low, high = names[knob].widest
            if outside := [value for value in values if not low <= value <= high]:
                problem = f"{outside[0]:g} is outside of the space, {low:g} to {high:g}; move it inside"
                raise ValueError(f"grid.{knob}: {problem}")
        parts = []
        for stratum in self.strata or space.names:
            if stratum not in space.names:
                raise ValueError(f"strata: {stratum!r} is none of {', '.join(space.names)}")
            knobs = {knob.name: (knob.low + knob.high) / 2 for knob in space[stratum].knobs}
            grid = {knob: values for knob, values in self.grid.items() if knob in knobs}
            for values in product(*grid.values()):
                part = {SHARE: 1.0, **knobs, **dict(zip(grid, values, strict=True))}
                purpose = "-".join([name, *map(str, values), stratum])
                config = EnvConfig.model_validate({space.key: {stratum: part}})
                parts.append((purpose, config, self.instances))
        return parts

    def draw(
        self, environment: Environment, name: str = "validation", held_out: frozenset[str] = frozenset()
    ) -> list[Any]:
        """Return the instances of the set `name` without held out or reserved ids; ShortageError."""
        instances: list[Any] = []
        for purpose, config, count in self.parts(environment.space, name):
            excluded = environment.reserved().union(held_out, (instance.id for instance in instances))
            instances += sample(environment, config, count, Source(self.seed, purpose=purpose), excluded)[0]
        return instances


class TestSpec(Frozen, use_attribute_docstrings=True):
    """The test set, which every policy answers, and which neither engineer nor gate sees."""

    instances: int | None = Field(default=None, ge=1, le=MOST)
    """Instances of each stratum and combination of the validation set; as many as there if left out."""
    seed: Seed = 20_265
    """Seed of a test set that is drawn."""
    file: str = ""
    """Parquet data set of this environment to use instead; a relative path starts from the folder of the
    preset."""

    @field_validator("file")
    @classmethod
    def _absolute(cls, file: str, info: ValidationInfo) -> str:
        return str((Path((info.context or {}).get("folder", ".")) / file).resolve()) if file else ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.file and self.instances:
            raise ValueError("instances and file are set; expected at most one of them, leave one out")
        return self

    def like(self, validation: ValidationSpec) -> ValidationSpec:
        """Return the strata and the grid of a validation set with size and seed of this set."""
        size = self.instances or validation.instances
        return validation.model_copy(update={"instances": size, "seed": self.seed})

    def content(self, environment: Environment, validation: ValidationSpec) -> dict[str, Any]:
        """Return what decides the instances: the digest of the file, or how the set is drawn."""
        if self.file:
            return {"file": file_digest(Path(self.file))}
        return {"spec": self.like(validation).model_dump(mode="json")}

    def draw(
        self, environment: Environment, validation: ValidationSpec, validated: frozenset[str]
    ) -> list[Any]:
        """Return the test set without the ids of the validation set; ConfigError or ShortageError."""
        if not self.file:
            return self.like(validation).draw(environment, "test", validated)
        instances = self.read(environment)
        unseen = [instance for instance in instances if instance.id not in validated]
        if not unseen:
            remedy = "give other instances, or another validation.seed"
            raise ConfigError(f"test.file: all {len(instances)} are in the validation set; {remedy}")
        if left_out := len(instances) - len(unseen):
            log.info("test.file: %d of %d are in the validation set: left out", left_out, len(instances))
        return unseen

    def read(self, environment: Environment) -> list[Any]:
        """Return the instances of the file, each once; ConfigError without instances of the environment."""
        path, names = Path(self.file), environment.space.names
        try:
            name, instances = environment_of(path).load().name, read_dataset(path)
        except DataError as error:
            raise ConfigError(f"test.file: {error}") from None
        if name != environment.name:
            problem = f"holds instances of {name}; give a data set of {environment.name}"
        elif not instances:
            problem = "holds no instance; give another data set"
        elif others := [instance.stratum for instance in instances if instance.stratum not in names]:
            problem = f"{others[0]!r} is none of the strata {', '.join(names)}; leave its instances out"
        else:
            return list({instance.id: instance for instance in instances}.values())
        raise ConfigError(f"test.file: {path}: {problem}")


def check_capacity(
    environment: Environment, validation: ValidationSpec, test: TestSpec | None, config: EnvConfig, count: int
) -> None:
    """ConfigError for a stratum of a table with fewer rows than validation set, test set and stage 0 need."""
    sizes = {"validation": validation.parts(environment.space)}
    if test and not test.file:
        sizes["test"] = test.like(validation).parts(environment.space, "test")
    for name, trained in config.counts(count).items():
        needs = {
            part: sum(size for _, config, size in parts if name in config.strata)
            for part, parts in sizes.items()
        }
        needs["stage 0"] = trained
        capacity, needed = environment.capacity(name), sum(needs.values())
        if capacity is not None and needed > capacity:
            uses = ", ".join(f"{size} for {part}" for part, size in needs.items())
            problem = f"has {capacity} rows, and needs {needed}: {uses}"
            remedy = "lower validation.instances, test.instances, instances or its data_ratio"
            raise ConfigError(f"{environment.space.label(name)}: {problem}; {remedy}")
