"""The generators of reasoning-gym that may be used, and what can be set of each.

Their scorers were read and attacked: none evaluates an answer as code, none is right for any text, none
depends on more than the question. Left out for one of these reasons are, among others, `countdown`,
`puzzle24`, `n_queens`, `polynomial_multiplication` (run the answer), `game_of_life_halting` (accepts
anything) and `complex_arithmetic` (accepts `nan`).
"""

from envgen.frozen import Frozen
from envgen.space import Label

VERSION = "0.1.25"
"""Of reasoning-gym: another one may draw other questions."""


class Setting(Frozen):
    """A number of a generator; ends are those within which every combination was tried."""

    fields: tuple[str, ...]
    """Of the generator's config, all of which get the value."""
    low: float
    high: float
    default: float
    means: str
    whole: bool = True
    label: Label | None = None
    """Asked of a share of the questions; `fields` then gets true or false, or is empty if only drawing again
    helps."""


class Puzzle(Frozen):
    """A generator."""

    settings: dict[str, Setting]
    fixed: dict[str, bool | int | float | str | tuple[str, ...]] = {}
    """Fields of its config that are always so."""
    canonical: bool = False
    """Whether equal problems are recognised although their words differ."""


def _whole(low: float, high: float, default: float, means: str, *fields: str) -> Setting:
    return Setting(fields=fields, low=low, high=high, default=default, means=means)


def _label(name: str, means: str, present: str, absent: str, asks: str, *fields: str) -> Setting:
    label = Label(name=name, condition=asks, present=present, absent=absent)
    return Setting(fields=fields, low=0, high=1, default=0, means=means, whole=False, label=label)


_TERMS = ("min_terms", "max_terms")
_DIGITS = ("min_digits", "max_digits")
_TERMS_MEAN, _DIGITS_MEAN = "the number of terms", "the digits of each number"

PUZZLES: dict[str, Puzzle] = {
    "chain_sum": Puzzle(
        settings={
            "terms": _whole(2, 6, 2, _TERMS_MEAN, *_TERMS),
            "digits": _whole(1, 6, 2, _DIGITS_MEAN, *_DIGITS),
        },
        canonical=True,
    ),
    "products": Puzzle(
        settings={
            "terms": _whole(2, 4, 2, _TERMS_MEAN, *_TERMS),
            "digits": _whole(1, 6, 2, _DIGITS_MEAN, *_DIGITS),
        },
        canonical=True,
    ),
    "basic_arithmetic": Puzzle(
        settings={
            "terms": _whole(2, 6, 3, _TERMS_MEAN, *_TERMS),
            "digits": _whole(1, 2, 1, _DIGITS_MEAN, *_DIGITS),
        },
        # With division, three digits and more may take for ever to draw.
        fixed={"operators": ("+", "-", "*")},
    ),
    "decimal_chain_sum": Puzzle(
        settings={
            "terms": _whole(2, 6, 2, _TERMS_MEAN, *_TERMS),
            "digits": _whole(1, 4, 1, "the digits before the point", *_DIGITS),
            "places": _whole(
                1, 4, 1, "the digits after the point", "min_decimal_places", "max_decimal_places"
            ),
        },
        canonical=True,
    ),
    "simple_equations": Puzzle(
        settings={
            "terms": _whole(2, 4, 2, _TERMS_MEAN, *_TERMS),
            "value": _whole(10, 1000, 100, "the largest constant", "max_value"),
        },
    ),
    "lcm": Puzzle(
        settings={"value": _whole(20, 1000, 100, "the largest number", "max_value")},
        fixed={"min_value": 2},
        canonical=True,
    ),
    "base_conversion": Puzzle(
        settings={"value": _whole(63, 65_535, 255, "the largest number", "max_value")},
    ),
    "leg_counting": Puzzle(
        settings={
            "animals": _whole(1, 6, 2, "the kinds of animals", "min_animals", "max_animals"),
            "instances": _whole(2, 15, 10, "the most animals of a kind", "max_instances"),
        },
    ),
    "number_sorting": Puzzle(
        settings={"numbers": _whole(3, 10, 5, "the numbers to sort", "min_numbers", "max_numbers")},
        fixed={"min_decimals": 0, "max_decimals": 0},
    ),
    "spell_backward": Puzzle(
        settings={"letters": _whole(3, 10, 5, "the letters of the word", "min_word_len", "max_word_len")},
    ),
    "palindrome_generation": Puzzle(
        settings={"letters": _whole(3, 12, 6, "the letters to use", "min_length", "max_length")},
    ),
    "ab": Puzzle(
        settings={"tokens": _whole(3, 20, 6, "the tokens of the program", "length")},
    ),
    "rotate_matrix": Puzzle(
        settings={
            "side": _whole(2, 6, 3, "the rows and columns", "min_n", "max_n"),
            "rotations": _whole(1, 15, 3, "the most quarter turns", "max_rotations"),
        },
        fixed={"min_rotations": 1},
    ),
    "manipulate_matrix": Puzzle(
        settings={
            "side": _whole(2, 6, 3, "the rows and columns", "min_rows", "max_rows", "min_cols", "max_cols"),
            "steps": _whole(1, 5, 1, "the changes made", "min_transforms", "max_transforms"),
        },
    ),
    "mini_sudoku": Puzzle(
        settings={"empty": _whole(2, 12, 6, "the cells to fill in", "min_empty", "max_empty")},
    ),
    "path_star": Puzzle(
        settings={
            "degree": _whole(2, 5, 2, "the arms of the star", "degree"),
            "length": _whole(
                2, 6, 3, "the steps from the centre to the goal", "min_path_length", "max_path_length"
            ),
            "reversed_ratio": _label(
                "reversed",
                "the share of the questions that ask for the path from its end",
                "where the path is asked from its end",
                "where it is asked from the centre",
                "the path is asked from its end",
                "reversed",
            ),
        },
        fixed={"node_range": 50},
    ),
    "shortest_path": Puzzle(
        settings={
            "side": _whole(3, 10, 4, "the rows and columns", "min_rows", "max_rows", "min_cols", "max_cols"),
            "blocked": Setting(
                fields=("p_blocked",),
                low=0.1,
                high=0.45,
                default=0.25,
                means="the share of blocked cells",
                whole=False,
            ),
            "infeasible_ratio": _label(
                "infeasible",
                "the share of the questions without any path",
                "where there is no path",
                "where there is one",
                "there is no path",
            ),
        },
        canonical=True,
    ),
}
