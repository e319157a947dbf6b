"""The form of a design answer, and how hostile text becomes a legal config."""

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from engineer.proposal import MAX_TEXT
from envgen.config import SHARE, EnvConfig, Part
from envgen.errors import ConfigError, excerpt
from envgen.files import unique_keys
from envgen.space import Space, Stratum, plural

MAX_RATIONALE = 600
MAX_DEPTH = 20
SHARE_DIGITS = 4
SHARE_ROUNDING = 0.005
"""Shares are asked for with two digits, each off by at most this."""
MAX_BRACES = 50
"""Places of a text at which an answer is looked for, if its outermost braces hold none."""
MAX_NAMED = 5
"""Strata outside of the space that are named one by one; the rest is counted."""
SHARES = (0.0, 1.0)
"""The range of a share."""


class AnswerError(ValueError):
    """A design answer cannot be read; the message says why."""


def answer_schema(space: Space) -> dict[str, Any]:
    """JSON schema of a design answer: a rationale, then an `EnvConfig` that names every stratum of the
    space."""
    strata = _object({stratum.name: _part_schema(stratum) for stratum in space.strata})
    rationale = {"type": "string", "maxLength": MAX_RATIONALE}
    return _object({"rationale": rationale, "config": _object({space.key: strata})})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object that has these fields and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _part_schema(stratum: Stratum) -> dict[str, Any]:
    ranges = {SHARE: SHARES, **{knob.name: knob.widest for knob in stratum.knobs}}
    return _object(
        {
            name: {"type": "number", "minimum": _short(low), "maximum": _short(high)}
            for name, (low, high) in ranges.items()
        }
    )


def _short(number: float) -> float:
    """A whole number without its decimals."""
    return int(number) if number == int(number) else number


def parse_answer(text: str, space: Space) -> tuple[str, dict[str, Any]]:
    """The rationale and the raw config of an answer; AnswerError if it is not the JSON asked for.

    The outermost braces of the text are read, so a code fence or a remark around them does no harm; if they
    are no answer, as where a remark has braces too, the only object in the text that is one. Work is
    bounded by limits of length and objects; NaN, infinities, duplicate keys, deep nesting and halves of
    surrogate pairs are refused: what is read here is stored as JSON again.
    """
    if len(text) > MAX_TEXT:
        raise AnswerError(f"the answer has {len(text)} characters; at most {MAX_TEXT} are read")
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise AnswerError("the answer holds no JSON object")
    try:
        return _answer_in(_DECODER.decode(text[start : end + 1]), space)
    except (RecursionError, ValueError) as error:
        answers = []
        for value in _objects(text):
            with suppress(ValueError):
                answers.append(_answer_in(value, space))
        if len(answers) == 1:
            return answers[0]
        if isinstance(error, AnswerError):
            raise
        if isinstance(error, RecursionError):
            raise AnswerError("the JSON is nested too deeply") from None
        raise AnswerError(f"the JSON cannot be read: {error}") from None


def _answer_in(value: Any, space: Space) -> tuple[str, dict[str, Any]]:
    """The rationale and the raw config that a JSON object holds; AnswerError if it lacks a config."""
    _check_storable(value)
    config = value.get("config")
    if not isinstance(config, dict) or not isinstance(config.get(space.key), dict):
        raise AnswerError(f"the object lacks config.{space.key}, a map from {space.noun} to ratios")
    rationale = value.get("rationale", "")
    return (rationale if isinstance(rationale, str) else "")[:MAX_RATIONALE], config


def _objects(text: str) -> Iterator[Any]:
    """The JSON objects in a text, none of them within another, at the first `MAX_BRACES` opening braces."""
    at = text.find("{")
    for _ in range(MAX_BRACES):
        if at < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (RecursionError, ValueError):
            end = at + 1
        else:
            yield value
        at = text.find("{", end)


def project(raw: dict[str, Any], space: Space, previous: EnvConfig) -> tuple[EnvConfig, tuple[str, ...]]:
    """The legal config nearest to a raw one, and what had to be changed, one sentence each.

    Numbers are clamped to their range, a missing or unreadable one keeps its previous value, strata outside
    of the space are dropped, shares are scaled to sum to 1, which is no change if they miss it by their
    rounding. AnswerError if no share is left.
    """
    changes = _outside(raw[space.key], space)
    knobs = {
        stratum.name: _read(raw[space.key], stratum, space, previous, changes) for stratum in space.strata
    }
    total = sum(numbers[SHARE] for numbers in knobs.values())
    if total <= 0:
        raise AnswerError("every data_ratio is 0")
    if abs(total - 1) > SHARE_ROUNDING * len(space.strata) + 10**-SHARE_DIGITS:
        changes.append(f"data_ratio summed to {total:.4g} and was scaled to 1")
    shares = {name: round(numbers[SHARE] / total, SHARE_DIGITS) for name, numbers in knobs.items()}
    largest = max(shares, key=lambda name: shares[name])
    shares[largest] = round(shares[largest] + 1 - sum(shares.values()), SHARE_DIGITS)
    parts = {name: Part.model_validate({**numbers, SHARE: shares[name]}) for name, numbers in knobs.items()}
    return space.config(parts), tuple(changes)


def _outside(raw: dict[str, Any], space: Space) -> list[str]:
    """Says which strata are dropped."""
    names = _listed(space)
    outside = [name for name in raw if name not in space.names]
    changes = [
        f"{space.noun} {str(name)[:20]!r} is not in {names} and was dropped" for name in outside[:MAX_NAMED]
    ]
    if len(outside) > MAX_NAMED:
        more = len(outside) - MAX_NAMED
        changes.append(f"{more} more {plural(space.noun)} are not in {names} and were dropped")
    return changes


def _listed(space: Space) -> str:
    return f"[{', '.join(space.names)}]"


def _read(
    raw: dict[str, Any], stratum: Stratum, space: Space, previous: EnvConfig, changes: list[str]
) -> dict[str, float]:
    """The legal numbers of a stratum; `changes` gets what had to be changed."""
    entry, part = raw.get(stratum.name), space.part(previous, stratum.name)
    numbers = {}
    for name, (low, high) in _ranges(stratum).items():
        old = part.get(name)
        old = stratum.absent[name] if old is None else old
        value = _number(entry.get(name)) if isinstance(entry, dict) else None
        where = f"{stratum.label} {name}"
        if value is None:
            changes.append(f"{where} was missing or no number, the previous {old:g} was kept")
            numbers[name] = old
            continue
        if not low <= value <= high:
            changes.append(f"{where} {value:.6g} was clamped to {low:g}..{high:g}")
        # Zero is added because it turns -0.0, which is within the range, into 0.0.
        numbers[name] = min(max(value, low), high) + 0.0
    return numbers


def _ranges(stratum: Stratum) -> dict[str, tuple[float, float]]:
    return {SHARE: SHARES, **{knob.name: (knob.low, knob.high) for knob in stratum.knobs}}


def _number(value: Any) -> float | None:
    """A finite number as a float; None for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:20]} is too large a number")
    return value


def _check_storable(value: Any, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if isinstance(value, str):
        value.encode()
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    for part in parts:
        _check_storable(part, depth + 1)


# Not strict: schema decoding lets raw control characters into strings.
_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_int=_finite,
    parse_float=_finite,
    object_pairs_hook=unique_keys,
    strict=False,
)


def check_ranges(raw: dict[str, Any], space: Space) -> None:
    """ConfigError for what the config space does not have: a person gets an error, a model a correction."""
    for name, numbers in raw[space.key].items():
        if name not in space.names:
            raise ConfigError(f"{space.noun} {name} is not in {_listed(space)}; leave it out")
        ranges = _ranges(space[name])
        for knob, value in numbers.items():
            if knob not in ranges:
                raise ConfigError(f"{name}.{knob}: there is no such ratio; known are {', '.join(ranges)}")
            low, high = ranges[knob]
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                what = f"{excerpt(value)} is no number from {low:g} to {high:g}"
                raise ConfigError(f"{name}.{knob}: {what}; give one")
