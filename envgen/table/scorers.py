"""Scorers of a data set's answers: `exact`, `number`, `choice`, `math`, `json`, or a function in a file.

An answer is hostile text of at most 20,000 characters. It is read in bounded time, and never evaluated.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

from envgen.errors import UnreadableError, install
from envgen.files import unique_keys

MATH_SECONDS = 2
"""Deadline of math-verify to read an answer, and to compare it."""
MATH_CHARACTERS = 2_000
"""End of an answer that math-verify reads."""
_NUMBER = re.compile(
    r"(?:(?<!\w)[-+\u2212])?(?<![\w.])(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?"
    r"(?:[eE][-+]?[0-9]{1,3}(?![0-9]))?(?:/[0-9]+)?"
)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
_CHOICE = re.compile(r"(?<![^\W_])[A-Z0-9](?![^\W_])")
_NAMED_CHOICE = re.compile(
    r"(?i:answer|choice|option)(?i:\s+is|:)?[\s:*]{0,9}[(\[*]{0,3}([A-Z0-9])(?![^\W_])"
)
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


def _exact(text: str) -> str:
    """Return a text without regard to white space and the composition of its characters."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _number(text: str) -> Fraction:
    """Return the last number of a text, or of its last `\\boxed{}`, as `1,234.50`, `-3e4` or `3/4`."""
    boxed = _BOXED.findall(text)
    numbers = _NUMBER.findall(boxed[-1] if boxed else text)
    if not numbers or len(numbers[-1]) > 100:
        raise UnreadableError("no number")
    try:
        value, _, below = numbers[-1].replace(",", "").replace("\u2212", "-").partition("/")
        return Fraction(value) / Fraction(below or 1)
    except ZeroDivisionError:
        raise UnreadableError("no number") from None


def _choice(text: str) -> str:
    """Return the letter or digit of a choice: boxed, after `answer is`, or the only one in the last line."""
    boxed, named = _BOXED.findall(text), _NAMED_CHOICE.findall(text)
    last = boxed[-1] if boxed else named[-1] if named else (text.strip().splitlines() or [""])[-1]
    choices = set(_CHOICE.findall(last))
    if len(choices) != 1:
        raise UnreadableError("no single choice, as B or (B)")
    return choices.pop()


def _json(text: str) -> str:
    """Return the canonical text of a JSON value: the text, a fenced block, or from first to last bracket."""
    fenced = _FENCED.findall(text)
    text = (fenced[-1] if fenced else text).strip()
    start, end = min((text.find(c) for c in "{[" if c in text), default=0), max(map(text.rfind, "}]"))
    for part in (text, text[start : end + 1]):
        try:
            value = json.loads(part, object_pairs_hook=unique_keys, parse_int=float)
            return json.dumps(value, sort_keys=True, allow_nan=False)
        except (ValueError, RecursionError):
            continue
    raise UnreadableError("no JSON")


READERS: dict[str, Callable[[str], Any]] = {
    "exact": _exact,
    "number": _number,
    "choice": _choice,
    "json": _json,
}
"""Scorer -> function that returns what an answer says, or raises UnreadableError; equal values score 1."""


class MathScorer:
    """Mathematical equality by math-verify."""

    def __init__(self) -> None:
        if find_spec("math_verify") is None:
            raise ValueError(f"needs the package math-verify; {install('math')}")
        import math_verify  # pyright: ignore[reportMissingImports]

        self._library = math_verify

    def describe(self) -> None:
        """Return nothing: it has no file."""

    def score(self, entry: Mapping[str, Any], answer: str) -> float | None:
        """Return 1 for an answer that equals the reference, else 0; None where the answer cannot be read."""
        reference = self._expression(entry["answer"])
        if not reference:
            raise ValueError(f"math-verify cannot read the reference {entry['answer']!r:.80}")
        said = self._expression(answer[-MATH_CHARACTERS:])
        return float(self._library.verify(reference, said, timeout_seconds=MATH_SECONDS)) if said else None

    def _expression(self, text: str) -> list[Any]:
        """Return the expression at the end of a text; a short one without marks is read as a whole."""
        marked = any(mark in text for mark in ("$", "\\boxed", "\\[", "\\("))
        short = not marked and len(text.split()) <= 3
        return self._library.parse(f"${text}$" if short else text, parsing_timeout=MATH_SECONDS)
