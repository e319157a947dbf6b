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
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, Field, create_model, model_validator

from envgen.environment import Instance
from envgen.errors import install
from envgen.frozen import Frozen
from envgen.module.environment import WorkerEnvironment
from envgen.module.user_file import knobs_of, textual_identity
from envgen.module.worker import Limits, Worker
from envgen.space import Label, Stratum

VERSION = "0.1.25"
"""Version of reasoning-gym; another one may draw other questions."""
ALMOST = 0.9
"""Score of a wrong answer that the scorer of the library accepts."""
MAX_REDRAWS = 500
"""Draws until a question has an answer and the labels that it shall have."""


class Puzzle:
    """An allowed generator, with its settings and further `fixed` fields of the library's config.

    `brief`: the question without explanations, of metadata and question. `identity`: what makes puzzles in
    other words the same, of metadata; None: equal words do. `equal`: whether an answer equals the reference,
    where the scorer of the library is too kind.
    """

    def __init__(
        self,
        brief: Callable[[dict[str, Any], str], str],
        identity: Callable[[dict[str, Any]], str] | None = None,
        equal: Callable[[str, str], bool] | None = None,
        fixed: Mapping[str, int] = {},
        **settings: Any,
    ) -> None:
        self.brief, self.identity, self.equal, self.fixed = brief, identity, equal, fixed
        self.config: type[BaseModel] = create_model("Config", **settings)


def _setting(low: float, high: float, default: float, description: str, fields: str, kind: type = int) -> Any:
    """Return the type and the field of a number; every combination within low and high was tried. `fields`:
    fields of the library's config that get the value, separated by spaces."""
    extra: Any = {"fields": fields}
    return kind, Field(default, ge=low, le=high, description=description, json_schema_extra=extra)


def _equal_numbers(answer: str, reference: str) -> bool:
    try:
        first, second = (
            [float(number) for number in json.loads(text.replace("'", '"'))] for text in (answer, reference)
        )
        return first == second
    except (ValueError, TypeError):
        return False


def _signed_terms(metadata: dict[str, Any]) -> str:
    terms = re.findall(r"([+-]) ([\d.]+)", f"+ {metadata['expression']}")
    return " ".join(sorted(sign + number for sign, number in terms))


def _grid(metadata: dict[str, Any]) -> str:
    """Return the least of the eight rotations and reflections."""
    grid = np.array([list(row) for row in metadata["matrix"]])
    images = [np.rot90(side, turns) for side in (grid, grid.T) for turns in range(4)]
    return min("/".join(map("".join, image)) for image in images)


def _rows(matrix: list[list[Any]]) -> str:
    return "\n".join(" ".join(map(str, row)) for row in matrix)


_INFEASIBLE = Label(name="infeasible", condition="there is no path", absent="where there is one")
_TERMS = ("the number of terms", "min_terms max_terms")
_DIGITS = _setting(1, 6, 2, "the digits of each number", "min_digits max_digits")
_SIDE = ("the rows and columns", "min_rows max_rows min_cols max_cols")
GENERATORS = {
    "chain_sum": Puzzle(
        lambda metadata, _: f"{metadata['expression']} =",
        _signed_terms,
        terms=_setting(2, 6, 2, *_TERMS),
        digits=_DIGITS,
    ),
    "products": Puzzle(
        lambda metadata, _: f"{metadata['expression']} =",
        lambda metadata: " ".join(sorted(metadata["expression"].split(" * "))),
        terms=_setting(2, 4, 2, *_TERMS),
        digits=_DIGITS,
    ),
    "number_sorting": Puzzle(
        lambda metadata, _: f"sort {metadata['direction']} {' '.join(metadata['original_numbers'])} =",
        equal=_equal_numbers,  # the library accepts each number that is off by 1 at most
        fixed={"min_decimals": 0, "max_decimals": 0},
        numbers=_setting(3, 10, 5, "the numbers to sort", "min_numbers max_numbers"),
    ),
    "spell_backward": Puzzle(
        lambda metadata, _: f"{metadata['word']} backward =",
        # The library accepts a right beginning with anything after it.
        equal=lambda answer, reference: answer.lower() == reference.lower(),
        letters=_setting(3, 10, 5, "the letters of the word", "min_word_len max_word_len"),
    ),
    "ab": Puzzle(
        lambda _, question: f"rewrite {question.split('program:')[1].split('Return')[0].strip()} =",
        tokens=_setting(3, 20, 6, "the tokens of the program", "length"),
    ),
    "rotate_matrix": Puzzle(
        lambda metadata, _: f"rotate {metadata['num_rotations']}\n{_rows(metadata['matrix'])}\n=",
        fixed={"min_rotations": 1},
        side=_setting(2, 6, 3, _SIDE[0], "min_n max_n"),
        rotations=_setting(1, 15, 3, "the most quarter turns", "max_rotations"),
    ),
    "mini_sudoku": Puzzle(
        lambda metadata, _: f"sudoku\n{_rows(metadata['puzzle'])}\n=".replace("0", "_"),
        empty=_setting(2, 12, 6, "the cells to fill in", "min_empty max_empty"),
    ),
    "shortest_path": Puzzle(
        lambda metadata, _: f"path\n{_rows(metadata['matrix'])}\n=",
        _grid,
        side=_setting(3, 10, 4, *_SIDE),
        blocked=_setting(0.1, 0.45, 0.25, "the share of blocked cells", "p_blocked", float),
        infeasible_ratio=_setting(0, 1, 0, "the share of the questions without any path", "", float),
    ),
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
        self.stratum()
        return self

    def stratum(self) -> Stratum:
        """Return the stratum, with a knob for each range; ValueError names a setting that is wrong."""
        knobs = knobs_of(GENERATORS[self.generator].config, self.settings, "settings")
        label = {"label": _INFEASIBLE, "step": 0.25}
        labelled = (k.model_copy(update=label) if k.name == "infeasible_ratio" else k for k in knobs)
        return Stratum(name=self.name, knobs=tuple(labelled))


class Options(Frozen):
    """Options of `reasoning-gym`."""

    strata: tuple[PuzzleStratum, ...] = Field(min_length=1)
    """From the easiest to the hardest, where the order is known."""
    limits: Limits = Limits()

    def worker(self) -> Worker:
        """Return the process that loads reasoning-gym."""
        strata = {
            part.name: (part.generator, {k: v for k, v in part.settings.items() if not isinstance(v, tuple)})
            for part in self.strata
        }
        return Worker("reasoning-gym", "envgen.reasoning_gym:Puzzles", {"strata": strata}, self.limits)


class ReasoningGym(WorkerEnvironment):
    """Puzzles of reasoning-gym, from an allow-list of generators."""

    name, version = "reasoning-gym", f"4 {VERSION}"
    Options = Options
    requirements = (f"reasoning-gym=={VERSION}",)
    licence = "Apache-2.0"
    styles = ("plain", "tagged", "compact")

    def __init__(self, options: Options) -> None:
        self.options = options
        self.space = self._space(
            all(GENERATORS[part.generator].identity for part in options.strata),
            strata=tuple(part.stratum() for part in options.strata),
            noun="puzzle",
            task="solves puzzles",
        )

    def prompt(self, instance: Instance, style: str) -> str:
        """Return the question as the library words it; style `compact` drops its explanations."""
        return str(instance.payload["brief"]) if style == "compact" else super().prompt(instance, style)


class Puzzles:
    """The generators in the worker process."""

    def __init__(self, strata: Mapping[str, tuple[str, dict[str, Any]]]) -> None:
        installed = version("reasoning-gym") if find_spec("reasoning_gym") else "none"
        if installed != VERSION:
            raise ValueError(f"needs version {VERSION}, {installed} is installed; {install('reasoning-gym')}")
        import_module("reasoning_gym")  # which takes seconds: before the first request
        self._strata = strata

    def generate(self, stratum: str, knobs: Mapping[str, float], seed: int) -> dict[str, Any]:
        """Return the question of a seed; labels that no setting asks for are left to chance."""
        name, constants = self._strata[stratum]
        puzzle, asked = GENERATORS[name], {**constants, **knobs}
        fields, infeasible = {**puzzle.fixed}, asked.get("infeasible_ratio")
        for key, value in puzzle.config(**asked):
            extra: Any = puzzle.config.model_fields[key].json_schema_extra
            fields |= dict.fromkeys(extra["fields"].split(), value)
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
        identity = puzzle.identity(metadata) if puzzle.identity else textual_identity(item["question"])
        return {
            "question": item["question"].strip(),
            "answer": item["answer"],
            "identity": f"{name}\n{identity}",
            "labels": labels,
            "brief": puzzle.brief(metadata, item["question"]),
            "entry": {"generator": name, "answer": item["answer"], "metadata": metadata},
        }

    def score(self, entry: Mapping[str, Any], answer: str) -> float:
        """Return the score of the library, at most `ALMOST` where its scorer is too kind."""
        equal = GENERATORS[entry["generator"]].equal
        try:
            score = float(_dataset(entry["generator"], ()).score_answer(answer, entry))
        except RecursionError:  # nested brackets: a wrong answer, no fault of the scorer
            return 0.0
        return score if equal is None or equal(answer, entry["answer"]) else min(score, ALMOST)


@lru_cache(maxsize=256)
def _dataset(name: str, fields: tuple[tuple[str, Any], ...]) -> Any:
    # The library draws item i from Random(seed + i): with seed 0 an index is a seed.
    return import_module("reasoning_gym").create_dataset(name, seed=0, size=2**32, **dict(fields))
