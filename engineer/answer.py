"""The form of a design answer, and how hostile text becomes a legal config."""

import json
import math
from typing import Any

from engineer.context import ConfigSpace
from engineer.proposal import MAX_TEXT
from envgen.config import EnvConfig, SizeConfig
from envgen.errors import ConfigError, shown
from envgen.files import canonical_json

MAX_RATIONALE = 600
MAX_DEPTH = 20
SHARE_DIGITS = 4
SHARE_ROUNDING = 0.005
"""Shares are asked for with two digits, each off by at most this."""
MAX_NAMED = 5
"""Map sizes outside of the space that are named one by one; the rest is counted."""
KNOBS = ("data_ratio", "hole_ratio", "wait_ratio")


class AnswerError(ValueError):
    """A design answer cannot be read; the message says why."""


def answer_schema(space: ConfigSpace) -> dict[str, Any]:
    """JSON schema of a design answer: a rationale, then an `EnvConfig` that names every map size of the space."""
    size = SizeConfig.model_json_schema()
    knobs = {name: {"type": "number", "minimum": size["properties"][name]["minimum"], "maximum": size["properties"][name]["maximum"]} for name in KNOBS}
    one_size = {"type": "object", "properties": knobs, "required": list(KNOBS), "additionalProperties": False}
    names = [str(s) for s in space.map_sizes]
    sizes = {"type": "object", "properties": dict.fromkeys(names, one_size), "required": names, "additionalProperties": False}
    config = {"type": "object", "properties": {"sizes": sizes}, "required": ["sizes"], "additionalProperties": False}
    properties = {"rationale": {"type": "string", "maxLength": MAX_RATIONALE}, "config": config}
    return {"type": "object", "properties": properties, "required": ["rationale", "config"], "additionalProperties": False}


def answer_text(rationale: str, config: EnvConfig) -> str:
    """The compact JSON that answers a design question; numbers have two digits after the point."""
    sizes = ",".join(f'"{size}":{{' + ",".join(f'"{knob}":{getattr(c, knob):.2f}' for knob in KNOBS) + "}" for size, c in config.sizes.items())
    return f'{{"rationale":{canonical_json(rationale)},"config":{{"sizes":{{{sizes}}}}}}}'


def parse_answer(text: str) -> tuple[str, dict[str, Any]]:
    """The rationale and the raw config of an answer; AnswerError if it is not the JSON asked for.

    The outermost braces of the text are read, so a code fence or a remark around them does no harm. Work is bounded
    by the length limit; NaN, infinities, duplicate keys, deep nesting and halves of surrogate pairs are refused: what is
    read here is stored as JSON again.
    """
    if len(text) > MAX_TEXT:
        raise AnswerError(f"the answer has {len(text)} characters; at most {MAX_TEXT} are read")
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise AnswerError("the answer holds no JSON object")
    try:
        # Not strict: schema decoding lets raw control characters into strings.
        value = json.loads(
            text[start : end + 1], parse_constant=_refuse_constant, parse_int=_finite, parse_float=_finite, object_pairs_hook=_unique_keys, strict=False
        )
        _check_storable(value)
    except RecursionError:
        raise AnswerError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise AnswerError(f"the JSON cannot be read: {error}") from None
    config = value.get("config")
    if not isinstance(config, dict) or not isinstance(config.get("sizes"), dict):
        raise AnswerError("the object lacks config.sizes, a map from map size to ratios")
    rationale = value.get("rationale", "")
    return (rationale if isinstance(rationale, str) else "")[:MAX_RATIONALE], config


def project(raw: dict[str, Any], space: ConfigSpace, previous: EnvConfig) -> tuple[EnvConfig, tuple[str, ...]]:
    """The legal config nearest to a raw one, and what had to be changed, one sentence each.

    Ratios are clamped to their range, a missing or unreadable one keeps its previous value, map sizes outside of the
    space are dropped, shares are scaled to sum to 1, which is no change if they miss it by their rounding. AnswerError if no share is left.
    """
    changes: list[str] = []
    given = raw["sizes"]
    names = {str(size) for size in space.map_sizes}
    outside = [name for name in given if name not in names]
    changes += [f"map size {str(name)[:20]!r} is not in {list(space.map_sizes)} and was dropped" for name in outside[:MAX_NAMED]]
    if len(outside) > MAX_NAMED:
        changes.append(f"{len(outside) - MAX_NAMED} more map sizes are not in {list(space.map_sizes)} and were dropped")
    knobs: dict[int, dict[str, float]] = {}
    for size in space.map_sizes:
        entry = given.get(str(size))
        old = previous.sizes.get(size, SizeConfig(data_ratio=0, hole_ratio=space.min_hole_ratio, wait_ratio=0))
        knobs[size] = {knob: _knob(entry, knob, getattr(old, knob), size, space, changes) for knob in KNOBS}
    total = sum(k["data_ratio"] for k in knobs.values())
    if total <= 0:
        raise AnswerError("every data_ratio is 0")
    if abs(total - 1) > SHARE_ROUNDING * len(space.map_sizes) + 10**-SHARE_DIGITS:
        changes.append(f"data_ratio summed to {total:.4g} and was scaled to 1")
    shares = {size: round(k["data_ratio"] / total, SHARE_DIGITS) for size, k in knobs.items()}
    largest = max(shares, key=lambda size: shares[size])
    shares[largest] = round(shares[largest] + 1 - sum(shares.values()), SHARE_DIGITS)
    return EnvConfig(sizes={size: SizeConfig(**{**k, "data_ratio": shares[size]}) for size, k in knobs.items()}), tuple(changes)


def _knob(entry: Any, knob: str, old: float, size: int, space: ConfigSpace, changes: list[str]) -> float:
    value = _number(entry.get(knob)) if isinstance(entry, dict) else None
    if value is None:
        changes.append(f"{size}x{size} {knob} was missing or no number, the previous {old:g} was kept")
        return old
    low, high = (space.min_hole_ratio, space.max_hole_ratio) if knob == "hole_ratio" else (0.0, 1.0)
    if not low <= value <= high:
        changes.append(f"{size}x{size} {knob} {value:.6g} was clamped to {low:g}..{high:g}")
    # Zero is added because it turns -0.0, which is within the range, into 0.0.
    return min(max(value, low), high) + 0.0


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
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_storable(key, depth + 1)
            _check_storable(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_storable(item, depth + 1)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def check_ranges(raw: dict[str, Any], space: ConfigSpace) -> None:
    """ConfigError for what the config space does not have: a person is told, a model would be corrected."""
    known = {str(size) for size in space.map_sizes}
    for size, knobs in raw["sizes"].items():
        if size not in known:
            raise ConfigError(f"map size {size} is not in {list(space.map_sizes)}; leave it out")
        for knob, value in knobs.items():
            if knob not in KNOBS:
                raise ConfigError(f"{size}.{knob}: there is no such ratio; known are {', '.join(KNOBS)}")
            low, high = (space.min_hole_ratio, space.max_hole_ratio) if knob == "hole_ratio" else (0, 1)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                what = f"{shown(value)} is no number from {low:g} to {high:g}"
                raise ConfigError(f"{size}.{knob}: {what}; give one")
