"""The form of a design answer, and how hostile text becomes a legal config."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from engineer.json_text import MAX_TEXT, check_storable, number_of, objects, without_thoughts
from envgen.config import SHARE, EnvConfig, Part
from envgen.errors import ConfigError, excerpt
from envgen.space import Space, Stratum

MAX_RATIONALE = 600
SHARE_DIGITS = 4
SHARE_ROUNDING = 0.005
"""Shares are asked for with two digits, each off by at most this."""
MAX_NAMED = 5
"""Strata outside of the space that are named; the rest is counted."""
_MEANT = re.compile(r"""["'“](rationale|config|edits)["'”]\s*:|\b(config|edits)\s*:\s*\{""")
"""Text that was meant to be an answer."""


class AnswerError(ValueError):
    """A design answer cannot be read; the message says why."""


class NoShareError(AnswerError):
    """No stratum has a share."""


def answer_schema(space: Space) -> dict[str, Any]:
    """Return the JSON schema of a design answer: a rationale, edits of some numbers, optional evidence."""
    strata = {}
    for stratum in space.strata:
        ranges = {SHARE: (0, 1), **{knob.name: knob.widest for knob in stratum.knobs}}
        strata[stratum.name] = _object({name: _number(*ends) for name, ends in ranges.items()})
    named = {"stratum": {"type": "string"}, "metric": {"type": "string"}, "value": {"type": "number"}}
    fields = {
        "rationale": {"type": "string", "maxLength": MAX_RATIONALE},
        "edits": _object(strata),
        "evidence": {"type": "array", "items": _object(named, *named)},
    }
    return _object(fields, "rationale", "edits")


def _object(fields: dict[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of an object that has no other fields."""
    return {"type": "object", "properties": fields, "required": [*required], "additionalProperties": False}


def _number(*ends: float) -> dict[str, Any]:
    """Return the schema of a number in a range, whose ends have no decimals if they are whole."""
    low, high = (int(end) if end == int(end) else end for end in ends)
    return {"type": "number", "minimum": low, "maximum": high}


def parse_answer(text: str, space: Space) -> tuple[str, dict[str, Any]]:
    """Return the rationale and what is raw of an answer; AnswerError if the text holds none.

    Raw is `{space.key: {stratum: {name: number}}}` for a whole config, `{"edits": {stratum: ...}}` for some
    of its numbers, with `evidence` if there is any. The last object that is an answer counts, unless a later
    one was meant to be an answer and cannot be read.
    """
    answer, ended, problem, longest = None, 0, "the answer holds no JSON object", 0
    body = without_thoughts(text)
    for start, end, value in objects(body) if body.rfind("}") > body.find("{") >= 0 else ():
        try:
            if isinstance(value, ValueError):
                raise ValueError(f"the JSON cannot be read: {value}")
            answer, ended = _answer_in(value, space), end
        except ValueError as error:
            if end - start > longest:
                problem, longest = str(error), end - start
    if answer is None or _MEANT.search(body, ended):
        unread = f"; of its {len(text)} characters the last {len(body)} were read" * (len(text) > MAX_TEXT)
        raise AnswerError(f"{problem}{unread}")
    return answer


def _answer_in(value: dict[str, Any], space: Space) -> tuple[str, dict[str, Any]]:
    """Return the rationale and what is raw of a JSON object, or of the only object in it."""
    check_storable(value)
    inner = [value]
    while len(inner) == 1 and not {"config", "edits"} & (value := inner[0]).keys():
        inner = [part for part in value.values() if isinstance(part, dict)]
    config, edits = value.get("config"), value.get("edits")
    if config is not None and edits is not None:
        raise AnswerError("the object has both config and edits; give one of them")
    if isinstance(edits, dict):
        keyed = edits.get(space.key) if len(edits) == 1 else None
        raw = {"edits": keyed if isinstance(keyed, dict) else edits}
    elif isinstance(config, dict) and isinstance(config.get(space.key), dict):
        raw = config
    else:
        raise AnswerError(f"the object lacks edits, a map from {space.noun} to numbers")
    evidence, rationale = value.get("evidence"), value.get("rationale")
    raw = {**raw, "evidence": evidence} if isinstance(evidence, list) else raw
    return rationale[:MAX_RATIONALE] if isinstance(rationale, str) else "", raw


def project(raw: dict[str, Any], space: Space, previous: EnvConfig) -> tuple[EnvConfig, tuple[str, ...]]:
    """Return the legal config nearest to a raw one, see `parse_answer`, and its changes, a sentence each.

    Knobs are clamped to their range, a missing or unreadable number keeps its previous value, strata outside
    of the space are dropped, shares are scaled to sum to 1, which is no change of edits, or if they miss it
    by their rounding. Edits name what differs from the previous config; the other shares divide the rest as
    before. AnswerError if no number can be used, NoShareError if no share is left.
    """
    edits = space.key not in raw
    entries, old = raw["edits"] if edits else raw[space.key], space.parts(previous)
    changes = _outside(entries, space)
    read = {s.name: _read(entries.get(s.name), s, old[s.name], edits, changes) for s in space.strata}
    if not any(read.values()):
        knobs = ", ".join([SHARE, *(knob.name for knob in space.knobs)])
        keys = f"the keys are {', '.join(space.names)[:80]}, each with {knobs[:100]}"
        raise AnswerError(f"no number of the answer can be used; {keys}")
    named = {name: numbers[SHARE] for name, numbers in read.items() if SHARE in numbers}
    rest = {name: part[SHARE] for name, part in old.items() if name not in named}
    if rest and max(named.values(), default=0) > 1:
        without = ", ".join(rest)[:80]
        raise AnswerError(f"a data_ratio above 1 needs one for every stratum; {without} have none")
    left, others = 1 - sum(named.values()), sum(rest.values())
    if edits and others > 0 and left >= 0:
        rest = {name: share * left / others for name, share in rest.items()}
    shares = {name: (named | rest)[name] for name in old}
    total = sum(shares.values())
    if total <= 0:
        raise NoShareError("every data_ratio is 0")
    if not edits and abs(total - 1) > SHARE_ROUNDING * len(space.strata) + 10**-SHARE_DIGITS:
        changes.append(f"data_ratio summed to {total:.4g} and was scaled to 1")
    shares = rounded(shares)
    parts = {name: old[name].knobs | read[name] | {SHARE: share} for name, share in shares.items()}
    return EnvConfig.model_validate({space.key: parts}), tuple(changes)


def rounded(shares: Mapping[str, float]) -> dict[str, float]:
    """Return shares scaled to sum to 1, with `SHARE_DIGITS` digits; the largest takes the rounding error."""
    total = sum(shares.values())
    scaled = {name: round(share / total, SHARE_DIGITS) for name, share in shares.items()}
    largest = max(scaled, key=lambda name: scaled[name])
    scaled[largest] = round(scaled[largest] + 1 - sum(scaled.values()), SHARE_DIGITS)
    return scaled


def _outside(raw: dict[str, Any], space: Space) -> list[str]:
    """Return a sentence that names the strata that are dropped, if there are any."""
    outside = [repr(str(name)[:20]) for name in raw if name not in space.names]
    more = f" and {len(outside) - MAX_NAMED} more" if len(outside) > MAX_NAMED else ""
    verb, done = ("is", "was") if len(outside) == 1 else ("are", "were")
    names, legal = ", ".join(outside[:MAX_NAMED]) + more, ", ".join(space.names)
    return [f"{space.noun} {names} {verb} not in [{legal}] and {done} dropped"] if outside else []


def _read(entry: Any, stratum: Stratum, old: Part, edits: bool, changes: list[str]) -> dict[str, float]:
    """Return the legal numbers that an answer gives of a stratum, shares from 0; `changes` gets the rest."""
    entry, read = entry if isinstance(entry, dict) else {}, {}
    for name, (low, high) in _ranges(stratum).items():
        value, where = number_of(entry.get(name)), f"{stratum.label} {name}"
        if value is None:
            if not edits or name in entry:
                changes.append(f"{where} was missing or no number, the previous {old[name]:g} was kept")
            continue
        high = max(high, value) if name == SHARE else high
        if not low <= value <= high:
            changes.append(f"{where} {value:.6g} was clamped to {low:g}..{high:g}")
        # Zero is added because it turns -0.0, which is within the range, into 0.0.
        read[name] = min(max(value, low), high) + 0.0
    if edits and (odd := [name for name in entry if name not in _ranges(stratum)]):
        changes.append(f"{stratum.label} has no {odd[0][:20]!r}, which was dropped")
    return read


def _ranges(stratum: Stratum) -> dict[str, tuple[float, float]]:
    return {SHARE: (0.0, 1.0), **{knob.name: (knob.low, knob.high) for knob in stratum.knobs}}


def check_edits(edits: Mapping[str, Any], space: Space, *, ranges: bool) -> None:
    """Raise ConfigError for the first name that the config space does not have, for what is no finite number,
    and with `ranges` for what is out of range: people and code get an error, a model a correction."""
    for name, numbers in edits.items():
        if name not in space.names:
            raise ConfigError(f"there is no {space.noun} {name!r}; {nearest(name, space.names)}")
        if not isinstance(numbers, Mapping):
            raise ConfigError(f"{name}: {excerpt(numbers)} is no dict of numbers by name; give one")
        bounds = _ranges(space[name])
        for field, value in numbers.items():
            where = f"{name}.{field}"
            if field not in bounds:
                raise ConfigError(f"{where}: there is no such number; {nearest(field, bounds)}")
            if isinstance(value, str) or number_of(value) is None:
                raise ConfigError(f"{where}: {excerpt(value)} is no finite number; give one")
            low, high = bounds[field]
            if ranges and not low <= float(value) <= high:
                raise ConfigError(f"{where}: {value:g} is no number from {low:g} to {high:g}; give one")


def nearest(name: Any, names: Iterable[str]) -> str:
    """Return what a message says of a name that does not exist."""
    near = difflib.get_close_matches(str(name), [*names], n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names) or 'none'}"
