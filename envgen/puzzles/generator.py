"""Questions of reasoning-gym, in the worker process."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import reasoning_gym

from envgen.puzzles.catalogue import PUZZLES, VERSION
from envgen.worker import textual_identity

ALMOST = 0.9
"""The most that a wrong answer is worth which the library's scorer takes for right."""
REDRAWN = 500
"""Questions drawn at most until one has an answer, and the label that is asked for, or has not."""


def open_puzzles(strata: Mapping[str, dict[str, Any]]) -> "Puzzles":
    """The generators of these strata: name -> `generator` and `settings`; ValueError for another version."""
    if (found := version("reasoning-gym")) != VERSION:
        raise ValueError(f"reasoning-gym {found} is installed, {VERSION} is needed; pip install the latter")
    return Puzzles(strata)


class Puzzles:
    """Generators by stratum."""

    def __init__(self, strata: Mapping[str, dict[str, Any]]) -> None:
        self._strata = strata

    def draw(self, stratum: str, knobs: Mapping[str, float], seed: int) -> dict[str, Any]:
        """The question of a seed, see `envgen.worker_family`.

        Of a label that is neither set nor asked for questions have it as often as they come.
        """
        name, settings = self._strata[stratum]["generator"], self._strata[stratum]["settings"] | dict(knobs)
        puzzle, fields = PUZZLES[name], dict(PUZZLES[name].fixed)
        for key, value in settings.items():
            setting = puzzle.settings[key]
            given = int(value) if setting.whole else bool(value) if setting.label else value
            fields |= dict.fromkeys(setting.fields, given)
        source = _dataset(name, tuple(sorted(fields.items())))
        for step in range(REDRAWN):
            item = source[seed + step]
            metadata = {key: item["metadata"][key] for key in item["metadata"] if key not in _UNUSED}
            labels = {"infeasible"} if item["answer"] == "infeasible" else set()
            labels |= {"reversed"} if fields.get("reversed") else set()
            # A program may rewrite itself to nothing, which no answer can say.
            if item["answer"] and all(
                (setting.label.name in labels) == bool(settings[key])
                for key, setting in puzzle.settings.items()
                if setting.label and key in settings
            ):
                break
        else:
            raise ValueError(f"none of {REDRAWN} questions has an answer and the labels that are asked for")
        identity = _IDENTITIES[name](metadata) if puzzle.canonical else textual_identity(item["question"])
        return {
            "question": item["question"].strip(),
            "answer": item["answer"],
            "identity": f"{name}\n{identity}",
            "labels": sorted(labels),
            "brief": _BRIEF[name](metadata, item["question"]),
            "entry": {"generator": name, "answer": item["answer"], "metadata": metadata},
        }

    def score(self, entry: Mapping[str, Any], answer: str) -> float:
        """The score of an answer; none of the scorers looks at a config."""
        name = entry["generator"]
        try:
            score = float(_dataset(name, ()).score_answer(answer, entry))
            same = _STRICTER.get(name)
            return score if same is None or same(answer, entry["answer"]) else min(score, ALMOST)
        except RecursionError:  # brackets in brackets: wrong, and no fault of the scorer
            return 0.0


def _same_numbers(answer: str, right: str) -> bool:
    """Whether two lists have equal numbers, which may be written as texts."""
    try:
        said, wanted = (json.loads(text.replace("'", '"')) for text in (answer, right))
        return [float(number) for number in said] == [float(number) for number in wanted]
    except (ValueError, TypeError):
        return False


_STRICTER = {
    # Takes each number that is off by 1 at most.
    "number_sorting": _same_numbers,
    # Adds up shares of letters in the right place to 1 also where more follows.
    "spell_backward": lambda answer, right: answer.lower() == right.lower(),
}
_UNUSED = ("difficulty", "source_dataset", "source_index")


@lru_cache(maxsize=256)
def _dataset(name: str, fields: tuple[tuple[str, Any], ...]) -> Any:
    # Item i is drawn from Random(seed + i): with seed 0 an index is a seed.
    given = {key: list(value) if isinstance(value, tuple) else value for key, value in fields}
    return reasoning_gym.create_dataset(name, seed=0, size=2**32, **given)


def _signed_terms(metadata: Mapping[str, Any]) -> str:
    """The terms of a sum with their signs, in order: the order that they are added in makes no difference."""
    terms = re.findall(r"([+-]) ([\d.]+)", f"+ {metadata['expression']}")
    return " ".join(sorted(sign + number for sign, number in terms))


def _factors(metadata: Mapping[str, Any]) -> str:
    return " ".join(sorted(metadata["expression"].split(" * ")))


def _grid(metadata: Mapping[str, Any]) -> str:
    """The least of a grid's eight rotations and reflections."""
    grid, found = [list(row) for row in metadata["matrix"]], []
    for _ in range(4):
        grid = [list(row) for row in zip(*grid[::-1], strict=True)]
        found += ["/".join(map("".join, grid)), "/".join("".join(row[::-1]) for row in grid)]
    return min(found)


_IDENTITIES = {
    "chain_sum": _signed_terms,
    "decimal_chain_sum": _signed_terms,
    "products": _factors,
    "lcm": lambda metadata: " ".join(map(str, sorted(metadata["numbers"]))),
    "shortest_path": _grid,
}


def _rows(matrix: list[list[Any]]) -> str:
    return "\n".join(" ".join(map(str, row)) for row in matrix)


def _last_line(question: str) -> str:
    return question.strip().split("\n")[-1]


_BRIEF: dict[str, Any] = {
    # The question without its explanations, for a policy that was taught what is asked.
    "chain_sum": lambda found, _: f"{found['expression']} =",
    "decimal_chain_sum": lambda found, _: f"{found['expression']} =",
    "products": lambda found, _: f"{found['expression']} =",
    "basic_arithmetic": lambda found, _: f"{found['expression']} =",
    "simple_equations": lambda found, _: f"solve {found['equation']}",
    "lcm": lambda found, _: f"lcm {' '.join(map(str, found['numbers']))} =",
    "base_conversion": lambda found, _: (
        f"base {found['source_base']} {found['source_repr']} to base {found['target_base']} ="
    ),
    "leg_counting": lambda found, _: (
        f"legs of {', '.join(f'{number} {name}' for name, number in found['animals'].items())} ="
    ),
    "number_sorting": lambda found, _: f"sort {found['direction']} {' '.join(found['original_numbers'])} =",
    "spell_backward": lambda found, _: f"{found['word']} backward =",
    "palindrome_generation": lambda found, _: f"palindrome of {' '.join(found['letters'])} =",
    "ab": lambda _, question: f"rewrite {question.split('program:')[1].split('Return')[0].strip()} =",
    "rotate_matrix": lambda found, _: f"rotate {found['num_rotations']}\n{_rows(found['matrix'])}\n=",
    "manipulate_matrix": lambda found, question: (
        f"{_rows(found['matrix'])}\n"
        + "\n".join(line[2:] for line in question.split("operations in order:")[1].strip().split("\n"))
        + "\n="
    ),
    "mini_sudoku": lambda found, _: f"sudoku\n{_rows(found['puzzle'])}\n=".replace("0", "_"),
    "path_star": lambda _, question: _last_line(question).removesuffix("=").strip() + " =",
    "shortest_path": lambda found, _: f"path\n{_rows(found['matrix'])}\n=",
}
