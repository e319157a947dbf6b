"""The family `module`: the generator of a user, in one Python file, run in a worker process.

family:
  name: module
  options: {file: ./products.py}

`envgen.module.generator` says what the file holds, `envwright family new` writes one.
"""

from functools import cached_property
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from envgen.errors import ConfigError, describe_validation_error
from envgen.frozen import Frozen
from envgen.space import Knob, Space, Stratum
from envgen.worker import GeneratorError, Limits, Worker
from envgen.worker_family import SCORER_FAILED, WorkerFamily

_OPENER = "envgen.module.generator:open_file"


class DescribedKnob(Frozen):
    """A field of `Config` that a stratum has a range for."""

    name: str
    whole: bool
    low: float
    high: float
    means: str | None

    @property
    def knob(self) -> Knob:
        """The same for a space."""
        step = 1.0 if self.whole else (self.high - self.low) / 10
        means = self.means or f"`{self.name}` of the generator"
        return Knob(
            name=self.name,
            word=self.name.replace("_", " "),
            low=self.low,
            high=self.high,
            step=step,
            description=means,
        )


class DescribedStratum(Frozen):
    """An entry of `STRATA`."""

    name: str
    knobs: tuple[DescribedKnob, ...]


class Described(Frozen):
    """What a generator file says of itself."""

    sha256: str
    """Digest of the file."""
    task: str | None
    canonical: bool
    """Whether it has an `identity` of its own."""
    strata: tuple[DescribedStratum, ...] = Field(min_length=1)


class Options(Frozen):
    """Which generator."""

    file: Path
    """A path; a relative one starts from the folder of the preset."""
    limits: Limits = Limits()
    described: Described | None = None
    """Filled in when the preset is read, so that a run can be looked at without the file."""

    @field_validator("file")
    @classmethod
    def _absolute(cls, file: Path, info: ValidationInfo) -> Path:
        return (Path((info.context or {}).get("folder", ".")) / file).resolve()

    @model_validator(mode="after")
    def _describe(self) -> Self:
        if self.described:
            return self
        return self.model_copy(update={"described": describe(self.file, self.limits)})


def describe(file: Path, limits: Limits) -> Described:
    """What a file says of itself; ValueError if it cannot be used."""
    if not file.is_file():
        raise ValueError(f"{file}: there is no such file; give the path of a generator")
    worker = Worker(_OPENER, {"path": str(file)}, limits)
    try:
        return Described.model_validate(worker.call("describe"))
    except (ConfigError, GeneratorError) as error:
        raise ValueError(f"{file}: {error}") from None
    finally:
        worker.close()


class ModuleFamily(WorkerFamily):
    """A user's own generator, in one Python file."""

    name = "module"
    Options = Options

    def __init__(self, options: Options, hash_seed: int = 0) -> None:
        assert options.described
        self.file, found = options.file, options.described
        self.version = f"1 {found.sha256}"
        self.integer_knobs = tuple({knob.name for one in found.strata for knob in one.knobs if knob.whole})
        self._options, self._hash_seed = options, hash_seed
        self.space = Space(
            strata=tuple(
                Stratum(
                    name=one.name,
                    label=one.name.replace("_", " "),
                    knobs=tuple(knob.knob for knob in one.knobs),
                )
                for one in found.strata
            ),
            noun="task",
            task=found.task or f"answers the questions of {self.file.stem}",
            guideline="Give most data to what is solved sometimes, little to what always or never is.",
            categories=self.categories,
            terms=self.terms,
            fault=SCORER_FAILED,
            identity="canonical" if found.canonical else "textual",
        )

    @cached_property
    def worker(self) -> Worker:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The process that has loaded the file; ConfigError if it is not there."""
        described = self._options.described
        assert described
        assert self.file
        if not self.file.is_file():
            raise ConfigError(f"family.options.file: {self.file} is not there; put the generator back")
        arguments = {"path": str(self.file), "sha256": described.sha256}
        return Worker(_OPENER, arguments, self._options.limits, self._hash_seed)

    @property
    def source(self) -> str:
        """The file."""
        return str(self.file)


def open_generator(file: Path, hash_seed: int = 0) -> ModuleFamily:
    """The family of a file, its process with this hash seed; ConfigError says what is wrong with it."""
    try:
        return ModuleFamily(Options.model_validate({"file": file}), hash_seed)
    except ValidationError as error:
        raise ConfigError(describe_validation_error(error, str(file))) from None
