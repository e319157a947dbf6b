"""The environment `reasoning-gym`: each stratum is a generator of that library with its settings.

environment:
  name: reasoning-gym
  options:
    strata:
    - {name: short_sums, generator: chain_sum, settings: {terms: 2, digits: [1, 2]}}
    - {name: paths, generator: shortest_path, settings: {side: 5, blocked: [0.1, 0.4], infeasible_ratio: 0}}

A number stays, a range is a knob. Only generators of `GENERATORS` are allowed: their scorers were read and
attacked. Others run the answer as code (`countdown`, `puzzle24`, `n_queens`, `polynomial_multiplication`),
accept anything (`game_of_life_halting`), or accept `nan` (`complex_arithmetic`).
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple, Self

from pydantic import Field, model_validator

from envgen.environment import Instance
from envgen.errors import ConfigError, install
from envgen.frozen import Frozen
from envgen.module.environment import WorkerEnvironment
from envgen.module.user_file import textual_identity
from envgen.module.worker import Limits, Worker
from envgen.space import Knob, Label, Stratum

VERSION = "0.1.25"
"""Version of reasoning-gym; another one may draw other questions."""
ALMOST = 0.9
"""Score of a wrong answer that the scorer of the library accepts."""
MAX_REDRAWS = 500
"""Draws until a question has an answer and the labels that it shall have."""


class Setting(NamedTuple):
    """A number of a generator; every combination within low and high was tried."""

    low: float
    high: float
    default: float
    description: str
    fields: str
    """Fields of the generator's config that get the value, separated by spaces."""
    whole: bool = True
    label: Label | None = None
    """Label whose share it sets, by drawing again."""

    def knob(self, name: str, low: float, high: float) -> Knob:
        """Return the knob that sets the number within a range."""
        step = 0.25 if self.label else 1.0 if self.whole else round((high - low) / 5, 3)
        words = {"description": self.description, "label": self.label}
        return Knob(name=name, low=low, high=high, step=step, whole=self.whole, **words)


_INFEASIBLE = Label(name="infeasible", condition="there is no path", absent="where there is one")
_TERMS = ("the number of terms", "min_terms max_terms")
_DIGITS = ("the digits of each number", "min_digits max_digits")
_SIDE = ("the rows and columns", "min_rows max_rows min_cols max_cols")
_NO_PATH = "the share of the questions without any path"
GENERATORS: dict[str, dict[str, Setting]] = {
    "chain_sum": {"terms": Setting(2, 6, 2, *_TERMS), "digits": Setting(1, 6, 2, *_DIGITS)},
    "products": {"terms": Setting(2, 4, 2, *_TERMS), "digits": Setting(1, 6, 2, *_DIGITS)},
    "number_sorting": {"numbers": Setting(3, 10, 5, "the numbers to sort", "min_numbers max_numbers")},
    "spell_backward": {"letters": Setting(3, 10, 5, "the letters of the word", "min_word_len max_word_len")},
    "ab": {"tokens": Setting(3, 20, 6, "the tokens of the program", "length")},
    "rotate_matrix": {
        "side": Setting(2, 6, 3, _SIDE[0], "min_n max_n"),
        "rotations": Setting(1, 15, 3, "the most quarter turns", "max_rotations"),
    },
    "mini_sudoku": {"empty": Setting(2, 12, 6, "the cells to fill in", "min_empty max_empty")},
    "shortest_path": {
        "side": Setting(3, 10, 4, *_SIDE),
        "blocked": Setting(0.1, 0.45, 0.25, "the share of blocked cells", "p_blocked", False),
        "infeasible_ratio": Setting(0, 1, 0, _NO_PATH, "", False, _INFEASIBLE),
    },
}
_FIXED: dict[str, dict[str, Any]] = {
    "number_sorting": {"min_decimals": 0, "max_decimals": 0},
    "rotate_matrix": {"min_rotations": 1},
}


class PuzzleStratum(Frozen):
    """One generator with its settings."""

    name: str = Field(pattern=r"^[A-Za-z0-9_]+$")
    generator: str
    settings: dict[str, float | tuple[float, float]] = {}
    """Setting -> number, or (lowest, highest) of a knob; its default if left out."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.generator not in GENERATORS:
            names = ", ".join(GENERATORS)
            raise ValueError(f"generator {self.generator!r} is not allowed; expected one of {names}")
        settings = GENERATORS[self.generator]
        for name, value in self.settings.items():
            if name not in settings:
                names = ", ".join(settings)
                raise ValueError(f"settings.{name}: {self.generator} has no such setting; known are {names}")
            low, high, whole = settings[name].low, settings[name].high, settings[name].whole
            if isinstance(value, tuple):
                legal = low <= value[0] < value[1] <= high
            else:
                legal = low <= value <= high and not (whole and value % 1)
            if not legal:
                kind = "whole number" if whole else "number"
                raise ValueError(
                    f"settings.{name}: {value} is no {kind}, and no range, within {low:g} to {high:g}"
                )
        return self

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """Settings with a range."""
        settings = GENERATORS[self.generator]
        ranges = {name: value for name, value in self.settings.items() if isinstance(value, tuple)}
        return tuple(settings[name].knob(name, *ends) for name, ends in ranges.items())

    @property
    def constants(self) -> dict[str, float]:
        """Settings with a number; labels that are not set are left to chance."""
        settings = GENERATORS[self.generator].items()
        defaults = {name: setting.default for name, setting in settings if not setting.label}
        values = {**defaults, **self.settings}
        return {name: value for name, value in values.items() if not isinstance(value, tuple)}


class Options(Frozen):
    """Options of `reasoning-gym`."""

    strata: tuple[PuzzleStratum, ...] = Field(min_length=1)
    """From the easiest to the hardest, where the order is known."""
    limits: Limits = Limits()


class ReasoningGym(WorkerEnvironment):
    """Puzzles of reasoning-gym, from an allow-list of generators."""

    name, version = "reasoning-gym", f"4 {VERSION}"
    source = name
    Options = Options
    requirements = (f"reasoning-gym=={VERSION}",)
    licence = "Apache-2.0"
    styles = ("plain", "tagged", "compact")

    def __init__(self, options: Options) -> None:
        self.options = options
        canonical = all(part.generator in _IDENTITIES for part in options.strata)
        self.space = self._space(
            strata=tuple(Stratum(name=part.name, knobs=part.knobs) for part in options.strata),
            noun="puzzle",
            task="solves puzzles",
            guideline="Give most data to puzzles that are solved sometimes, little to the others.",
            identity="canonical" if canonical else "textual",
        )

    @cached_property
    def worker(self) -> Worker:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Process that has loaded reasoning-gym; ConfigError if it is not installed."""
        if find_spec("reasoning_gym") is None:
            remedy = install("reasoning-gym")
            raise ConfigError(f"environment 'reasoning-gym' needs a package that is not installed; {remedy}")
        strata = {part.name: (part.generator, part.constants) for part in self.options.strata}
        return Worker("envgen.reasoning_gym:Puzzles", {"strata": strata}, self.options.limits)

    def prompt(self, instance: Instance, style: str) -> str:
        """Return the question as the library words it; style `compact` drops its explanations."""
        return str(instance.payload["brief"]) if style == "compact" else super().prompt(instance, style)


class Puzzles:
    """The generators in the worker process."""

    def __init__(self, strata: Mapping[str, tuple[str, dict[str, Any]]]) -> None:
        if (installed := version("reasoning-gym")) != VERSION:
            raise ValueError(f"reasoning-gym {installed} is installed; pip install reasoning-gym=={VERSION}")
        self._strata = strata

    def draw(self, stratum: str, knobs: Mapping[str, float], seed: int) -> dict[str, Any]:
        """Return the question of a seed; labels that no setting asks for are left to chance."""
        name, values = self._strata[stratum][0], {**self._strata[stratum][1], **knobs}
        settings, fields = GENERATORS[name], {**_FIXED.get(name, {})}
        for key, value in values.items():
            number = int(value) if settings[key].whole else value
            fields |= dict.fromkeys(settings[key].fields.split(), number)
        infeasible = values.get("infeasible_ratio")
        dataset = _dataset(name, tuple(sorted(fields.items())))
        for index in range(seed, seed + MAX_REDRAWS):
            item = dataset[index]
            labels = [_INFEASIBLE.name] if item["answer"] == _INFEASIBLE.name else []
            # A program may rewrite itself to nothing, which no answer can say.
            if item["answer"] and (infeasible is None or bool(infeasible) == bool(labels)):
                break
        else:
            raise ValueError(f"none of {MAX_REDRAWS} questions has an answer and is as infeasible_ratio asks")
        unused = ("difficulty", "source_dataset", "source_index")
        metadata = {key: value for key, value in item["metadata"].items() if key not in unused}
        identity = _IDENTITIES[name](metadata) if name in _IDENTITIES else textual_identity(item["question"])
        return {
            "question": item["question"].strip(),
            "answer": item["answer"],
            "identity": f"{name}\n{identity}",
            "labels": labels,
            "brief": _BRIEFS[name](metadata, item["question"]),
            "entry": {"generator": name, "answer": item["answer"], "metadata": metadata},
        }

    def score(self, entry: Mapping[str, Any], answer: str) -> float:
        """Return the score of the library, at most `ALMOST` where its scorer is too kind."""
        name = entry["generator"]
        try:
            score = float(_dataset(name, ()).score_answer(answer, entry))
        except RecursionError:  # nested brackets: a wrong answer, no fault of the scorer
            return 0.0
        equal = _EQUAL.get(name)
        return score if equal is None or equal(answer, entry["answer"]) else min(score, ALMOST)


@lru_cache(maxsize=256)
def _dataset(name: str, fields: tuple[tuple[str, Any], ...]) -> Any:
    import reasoning_gym

    # The library draws item i from Random(seed + i): with seed 0 an index is a seed.
    return reasoning_gym.create_dataset(name, seed=0, size=2**32, **dict(fields))


def _equal_numbers(answer: str, reference: str) -> bool:
    try:
        lists = [json.loads(text.replace("'", '"')) for text in (answer, reference)]
        first, second = ([float(number) for number in numbers] for numbers in lists)
        return first == second
    except (ValueError, TypeError):
        return False


_EQUAL: dict[str, Callable[[str, str], bool]] = {
    # The library accepts each number that is off by 1 at most.
    "number_sorting": _equal_numbers,
    # The library accepts a right beginning with anything after it.
    "spell_backward": lambda answer, reference: answer.lower() == reference.lower(),
}


def _signed_terms(metadata: Mapping[str, Any]) -> str:
    terms = re.findall(r"([+-]) ([\d.]+)", f"+ {metadata['expression']}")
    return " ".join(sorted(sign + number for sign, number in terms))


def _grid(metadata: Mapping[str, Any]) -> str:
    """Return the least of the eight rotations and reflections."""
    grid, images = [list(row) for row in metadata["matrix"]], []
    for _ in range(4):
        grid = [list(row) for row in zip(*grid[::-1], strict=True)]
        images += ["/".join(map("".join, grid)), "/".join("".join(row[::-1]) for row in grid)]
    return min(images)


_IDENTITIES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "chain_sum": _signed_terms,
    "products": lambda metadata: " ".join(sorted(metadata["expression"].split(" * "))),
    "shortest_path": _grid,
}
"""Identities of equal problems in other words; the others go by their words."""


def _rows(matrix: list[list[Any]]) -> str:
    return "\n".join(" ".join(map(str, row)) for row in matrix)


_BRIEFS: dict[str, Callable[[Mapping[str, Any], str], str]] = {
    "chain_sum": lambda metadata, _: f"{metadata['expression']} =",
    "products": lambda metadata, _: f"{metadata['expression']} =",
    "number_sorting": lambda metadata, _: (
        f"sort {metadata['direction']} {' '.join(metadata['original_numbers'])} ="
    ),
    "spell_backward": lambda metadata, _: f"{metadata['word']} backward =",
    "ab": lambda _, question: f"rewrite {question.split('program:')[1].split('Return')[0].strip()} =",
    "rotate_matrix": lambda metadata, _: (
        f"rotate {metadata['num_rotations']}\n{_rows(metadata['matrix'])}\n="
    ),
    "mini_sudoku": lambda metadata, _: f"sudoku\n{_rows(metadata['puzzle'])}\n=".replace("0", "_"),
    "shortest_path": lambda metadata, _: f"path\n{_rows(metadata['matrix'])}\n=",
}
"""Questions without explanations, for the policy that was taught these puzzles."""
