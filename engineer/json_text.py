"""Read JSON objects from the text of a language model, within bounds on time and memory.

JSON is read as it is. Where that fails, comments, trailing and missing commas, other quotes, bare keys,
Python's literals and percentages are rewritten token by token, and the same strict decoder reads the result:
NaN, infinities, repeated keys and deep nesting are refused either way, and nothing that is open is closed.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

from envgen.files import unique_keys
from envgen.thinking import CLOSE, OPEN

MAX_TEXT = 20_000
"""Characters of an answer that are read, without thoughts, and that are stored."""
MAX_DEPTH = 20
MAX_WORK, START = 4_000, 4
"""Work for one text, see `_Reader`: milliseconds, whatever it holds."""
_THOUGHT_ENDS = (CLOSE, "</thinking>", "[/THINK]")
_THOUGHT_STARTS = (OPEN, "<thinking>", "[THINK]")
_TOKEN = re.compile(
    r"""
    (?P<gap>[\s\xa0\ufeff]++|//[^\n]*+|\#[^\n]*+|/\*(?s:.*?)\*/)
    |(?P<string>"(?:[^"\\]++|\\.|"(?![ \t\r]*+(?:[]},:/#\n]|$)))*+"
        |'(?:[^'\\]++|\\.|'(?![ \t\r]*+(?:[]},:/#\n]|$)))*+'|“[^“”]*+”)
    |(?P<key>[\w.$-]++(?=\s*+:))
    |(?P<percent>[-+]?+(?:\d++(?:\.\d*+)?|\.\d++)\ ?%)
    |(?P<number>[-+]?+(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?+(?![\w.%/]))
    |(?P<literal>(?:[Tt]rue|[Ff]alse|null|None)\b)
    |(?P<open>[{[])|(?P<close>[]}])|(?P<mark>[,:])
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_QUOTES = re.compile(r"\\.|\"", re.DOTALL)
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(%?)", re.ASCII)
# Not strict: schema decoding lets raw control characters into strings.
_DECODER = json.JSONDecoder(parse_int=float, object_pairs_hook=unique_keys, strict=False)


def thoughts_end(text: str) -> int:
    """Return where the last thought of a text ends; 0 if none does."""
    return max(at + len(mark) if (at := text.rfind(mark)) >= 0 else 0 for mark in _THOUGHT_ENDS)


def without_thoughts(text: str) -> str:
    """Return the text after the last thought and before one without an end; of a long text its end."""
    start = thoughts_end(text)
    end = min((at for mark in _THOUGHT_STARTS if (at := text.find(mark, start)) >= 0), default=len(text))
    return text[max(start, end - MAX_TEXT) : end]


@dataclass
class _Reader:
    """Text and the work that is left for it: a token counts 1, `START` a brace, a character a tenth."""

    text: str
    left: int = MAX_WORK

    def object_at(self, at: int) -> tuple[dict[str, Any] | ValueError, int]:
        """Return the object that starts at a brace, or why it cannot be read, and where reading ended."""
        self.left -= START
        try:
            return _DECODER.raw_decode(self.text, at)
        except (RecursionError, ValueError) as error:
            # A new error holds no traceback, and so no memory.
            reason = ValueError(str(error) if isinstance(error, ValueError) else "it is nested too deeply")
            self.left -= (getattr(error, "pos", len(self.text)) - at) // 10
        plain, end = self._rewritten(at)
        try:
            return (_DECODER.decode(plain) if plain else reason), end
        except ValueError as error:
            return reason if isinstance(error, json.JSONDecodeError) else ValueError(str(error)), end

    def _rewritten(self, at: int) -> tuple[str, int]:
        """Return the object that starts at a brace as plain JSON, empty if it is none, and its end."""
        parts, depth = [], 0
        while depth <= MAX_DEPTH and self.left > 0 and (match := _TOKEN.match(self.text, at)):
            kind, token, at = match.lastgroup, match[0], match.end()
            self.left -= 1
            if kind == "gap":
                continue
            if kind == "close" and parts[-1] == ",":
                parts.pop()
            if kind not in ("close", "mark") and parts and parts[-1] not in "{[,:":
                parts.append(",")
            parts.append(_plain(kind, token))
            depth += (kind == "open") - (kind == "close")
            if not depth:
                return "".join(parts), at
        if depth <= MAX_DEPTH and self.text[at : at + 1] in "\"'“/":  # what is open was read to the end
            self.left -= (len(self.text) - at) // 10
            at = len(self.text)
        return "", at + 1


def objects(text: str) -> Iterator[tuple[int, int, dict[str, Any] | ValueError]]:
    """Yield where an object starts and ends and what it is, or why it cannot be read, none within another."""
    reader, at = _Reader(text), text.find("{")
    while at >= 0:
        value, end = reader.object_at(at)
        if reader.left <= 0:
            value, end = ValueError("too much of the text is no JSON"), len(text)
        yield at, end, value
        at = text.find("{", at + 1 if isinstance(value, ValueError) and reader.left > 0 else end)


def _plain(kind: str | None, token: str) -> str:
    """Return a token as JSON."""
    if kind == "string":
        quoted = _QUOTES.sub(lambda match: {'"': '\\"', "\\'": "'"}.get(match[0], match[0]), token[1:-1])
        return f'"{quoted}"'
    if kind in ("key", "percent"):
        return f'"{token}"'
    if kind == "number":
        return repr(float(token))
    return {"True": "true", "False": "false", "None": "null"}.get(token, token)


def number_of(value: Any) -> float | None:
    """Return a finite number, also from a text such as `"0.5"` or `"50%"`, as a float; None for all else."""
    if isinstance(value, str) and len(value) < 40 and (match := _NUMBER.fullmatch(value.strip())):
        value = float(match[1]) / (100 if match[2] else 1)
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def check_storable(value: Any, depth: int = 0) -> None:
    """Raise ValueError for a value that is not stored as JSON: deep, not finite, or half a surrogate pair."""
    if depth > MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN, infinity or a number that large is no ratio")
    if isinstance(value, str):
        value.encode()
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    for part in parts:
        check_storable(part, depth + 1)
