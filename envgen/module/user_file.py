"""A user's generator file in the worker process; the parent process never imports the file.

The file has

    Config            a pydantic model; a number with both bounds (`Field(ge=1, le=4)`) can be a knob
    generate(rng, config) -> (question, answer) or (question, answer, metadata)
    score(answer, entry) -> 0 to 1; 1 is right. `entry` has question, answer and metadata
    identity(entry) -> text       optional: equal for equal problems; the question if left out
    STRATA            optional: name -> {field of Config: number, or (low, high) for a knob}
    TASK              optional: completes "a language model that ..."
"""

import hashlib
import importlib.util
import json
import math
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel, JsonValue, TypeAdapter

from envgen.space import Knob, Stratum


def open_file(path: str, sha256: str | None = None) -> "Generator":
    """Return the generator of a file; ValueError if its digest is not `sha256`, or it lacks a part."""
    return Generator(*load_file(path, sha256))


def load_file(path: str, sha256: str | None) -> tuple[ModuleType, str]:
    """Return the module of a file, and its digest; ValueError if that is not `sha256`."""
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    if sha256 and digest != sha256:
        raise ValueError("the file changed since the run began; put it back, or begin another run")
    spec = importlib.util.spec_from_file_location(f"_generator_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError("is no Python file; its name has to end in .py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pydantic look up names of annotations there.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module, digest


def textual_identity(question: str) -> str:
    """Return the question without regard to white space."""
    return " ".join(question.split())


class Generator:
    """A loaded file."""

    def __init__(self, module: Any, sha256: str) -> None:
        for name in ("generate", "score"):
            if not callable(getattr(module, name, None)):
                raise ValueError(f"{name}: is missing; define a function of this name")
        config = getattr(module, "Config", None)
        if not (isinstance(config, type) and issubclass(config, BaseModel)):
            raise ValueError("Config: is missing; define a pydantic model of this name")
        self._module, self._config, self._sha256 = module, config, sha256
        default = {"all": {name: (low, high) for name, (_, low, high) in _bounds(config).items()}}
        self._strata: dict[str, dict[str, Any]] = getattr(module, "STRATA", None) or default

    def describe(self) -> dict[str, Any]:
        """Return an `envgen.module.environment.Description`."""
        strata = [
            Stratum(name=name, knobs=tuple(knobs_of(self._config, fields, f"STRATA.{name}")))
            for name, fields in self._strata.items()
        ]
        return {
            "sha256": self._sha256,
            "task": getattr(self._module, "TASK", None),
            "canonical": hasattr(self._module, "identity"),
            "strata": [stratum.model_dump() for stratum in strata],
        }

    def draw(self, stratum: str, knobs: Mapping[str, float], seed: int) -> dict[str, Any]:
        """Return the item of a seed; it also seeds the global generators of random numbers."""
        random.seed(seed)
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed(seed)
        fixed = {name: value for name, value in self._strata[stratum].items() if not _is_range(value)}
        item = self._module.generate(random.Random(seed), self._config(**fixed, **knobs))
        if not isinstance(item, tuple) or len(item) not in (2, 3):
            raise TypeError(f"generate returned {item!r:.200}; expected (question, answer, metadata)")
        question, answer, metadata = item if len(item) == 3 else (*item, {})
        for field, text in (("question", question), ("answer", answer)):
            if not isinstance(text, str) or not text.strip():
                raise TypeError(f"its {field} is {text!r}; expected a text")
        entry = {"question": question, "answer": answer, "metadata": metadata}
        if TypeAdapter(JsonValue).validate_python(entry) != entry:
            raise TypeError("metadata: hold what JSON does not; use texts, numbers, lists and dicts")
        json.dumps(entry, ensure_ascii=False).encode()  # half of a surrogate pair cannot be stored
        identity = self._module.identity(entry) if hasattr(self._module, "identity") else None
        identity = textual_identity(question) if identity is None else identity
        return {"question": question, "answer": answer, "identity": identity, "entry": entry}

    def score(self, entry: dict[str, Any], answer: str) -> Any:
        """Return the score of an answer."""
        score = self._module.score(answer, entry)
        return score.item() if hasattr(score, "item") else score  # a number of numpy


def knobs_of(config: type[BaseModel], fields: Mapping[str, Any], where: str) -> Iterator[Knob]:
    """Yield a knob for each field whose value is a range; ValueError names a field that is wrong."""
    bounds = _bounds(config)
    for field, value in fields.items():
        place = f"{where}.{field}: "
        if field not in config.model_fields:
            raise ValueError(f"{place}Config has no such field; known are {', '.join(config.model_fields)}")
        if not _is_range(value):
            continue
        if field not in bounds:
            raise ValueError(
                f"{place}{value!r} is a range, but Config.{field} is no int or float with two bounds; "
                "give it Field(ge=..., le=...), or a single value here"
            )
        (whole, lowest, highest), (low, high) = bounds[field], value
        if not lowest <= low < high <= highest:
            raise ValueError(f"{place}{value!r} is no range within {lowest:g} to {highest:g}")
        description = config.model_fields[field].description or f"`{field}` of the generator"
        step = 1.0 if whole else (high - low) / 10
        yield Knob(name=field, low=low, high=high, step=step, whole=whole, description=description)


def _bounds(config: type[BaseModel]) -> dict[str, tuple[bool, float, float]]:
    """Return whether a number is whole, and both ends of its range, for each field that has both."""
    bounds = {}
    for name, schema in config.model_json_schema().get("properties", {}).items():
        whole = schema.get("type") == "integer"
        low = schema.get("minimum", schema.get("exclusiveMinimum", math.nan) + whole)
        high = schema.get("maximum", schema.get("exclusiveMaximum", math.nan) - whole)
        if schema.get("type") in ("integer", "number") and not math.isnan(low + high):
            bounds[name] = whole, low, high
    return bounds


def _is_range(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2
