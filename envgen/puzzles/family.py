"""The family `reasoning-gym`: strata that are a generator each, with ranges of what can be set.

family:
  name: reasoning-gym
  options:
    strata:
    - {name: short_sums, generator: chain_sum, settings: {terms: 2, digits: [1, 2]}}
    - {name: paths, generator: shortest_path, settings: {side: 5, blocked: [0.1, 0.4], infeasible_ratio: 0}}

A number stays as it is, a range is a knob. Needs `pip install -c constraints.txt -e '.[reasoning-gym]'`.
"""

from functools import cached_property
from importlib.util import find_spec
from typing import Self

from pydantic import Field, model_validator

from envgen.environment import Instance
from envgen.errors import ConfigError
from envgen.extras import install
from envgen.frozen import Frozen
from envgen.puzzles.catalogue import PUZZLES, VERSION, Puzzle, Setting
from envgen.puzzles.vocabulary import VOCABULARY
from envgen.space import Knob, Space, Stratum
from envgen.worker import Limits, Worker
from envgen.worker_family import SCORER_FAILED, WorkerFamily


class PuzzleStratum(Frozen):
    """One generator with its settings."""

    name: str = Field(pattern=r"^[A-Za-z0-9_]+$")
    generator: str
    settings: dict[str, float | tuple[float, float]] = {}
    """Setting -> number, or (lowest, highest) of a knob; its default if left out."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.generator not in PUZZLES:
            known = ", ".join(PUZZLES)
            raise ValueError(f"generator {self.generator!r} is none of those that may be used: {known}")
        for name, value in self.settings.items():
            setting = self.puzzle.settings.get(name)
            if setting is None:
                known = ", ".join(self.puzzle.settings)
                raise ValueError(f"settings.{name}: {self.generator} has no such setting; known are {known}")
            if setting.whole and not isinstance(value, tuple) and value != int(value):
                raise ValueError(f"settings.{name}: {value} is no whole number; give one, or a range")
            low, high = value if isinstance(value, tuple) else (value, value)
            if not setting.low <= low <= high <= setting.high or (low == high and isinstance(value, tuple)):
                raise ValueError(
                    f"settings.{name}: {value} is no number, and no range, within {setting.low:g} to "
                    f"{setting.high:g}"
                )
        return self

    @property
    def puzzle(self) -> Puzzle:
        """What is known of the generator."""
        return PUZZLES[self.generator]

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """Its ranges."""
        ranges = {name: value for name, value in self.settings.items() if isinstance(value, tuple)}
        return tuple(_knob(name, self.puzzle.settings[name], *ends) for name, ends in ranges.items())

    @property
    def constants(self) -> dict[str, float]:
        """Its numbers; a label that is not set is left to chance."""
        defaults = {name: one.default for name, one in self.puzzle.settings.items() if not one.label}
        return {
            name: value for name, value in (defaults | self.settings).items() if not isinstance(value, tuple)
        }


class Options(Frozen):
    """Which puzzles."""

    strata: tuple[PuzzleStratum, ...] = Field(min_length=1)
    """From the easiest to the hardest, where that is known."""
    limits: Limits = Limits()


class ReasoningGym(WorkerFamily):
    """Puzzles of reasoning-gym, from an allow-list of generators."""

    name = "reasoning-gym"
    Options = Options
    requirements = (f"reasoning-gym=={VERSION}",)
    licence = "Apache-2.0"
    styles = ("plain", "tagged", "compact")
    vocabulary = VOCABULARY

    def __init__(self, options: Options) -> None:
        self.version = f"3 {VERSION}"
        self.integer_knobs = tuple(
            {
                knob.name
                for one in options.strata
                for knob in one.knobs
                if one.puzzle.settings[knob.name].whole
            }
        )
        self._options = options
        self.space = Space(
            strata=tuple(
                Stratum(name=one.name, label=one.name.replace("_", " "), knobs=one.knobs)
                for one in options.strata
            ),
            noun="puzzle",
            task="solves puzzles",
            guideline="Give most data to puzzles that are solved sometimes, little to the others.",
            categories=self.categories,
            terms=self.terms,
            fault=SCORER_FAILED,
            identity="canonical" if all(one.puzzle.canonical for one in options.strata) else "textual",
        )

    @cached_property
    def worker(self) -> Worker:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The process that has loaded reasoning-gym; ConfigError if it is not installed."""
        if find_spec("reasoning_gym") is None:
            raise ConfigError(
                f"family 'reasoning-gym' needs a package that is not installed; {install('reasoning-gym')}"
            )
        strata = {
            one.name: {"generator": one.generator, "settings": one.constants} for one in self._options.strata
        }
        return Worker("envgen.puzzles.generator:open_puzzles", {"strata": strata}, self._options.limits)

    def prompt(self, instance: Instance, style: str) -> str:
        """The question as reasoning-gym has it, or in style `compact` without its explanations."""
        return str(instance.payload["brief"]) if style == "compact" else super().prompt(instance, style)


def _knob(name: str, setting: Setting, low: float, high: float) -> Knob:
    step = 0.25 if setting.label else 1.0 if setting.whole else round((high - low) / 5, 3)
    return Knob(
        name=name,
        low=low,
        high=high,
        step=step,
        description=setting.means,
        label=setting.label,
    )
