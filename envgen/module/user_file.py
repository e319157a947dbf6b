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
import json
import math
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import BaseModel, JsonValue, TypeAdapter

from envgen.errors import naming
from envgen.space import Knob, Stratum


def load_file(path: str, sha256: str | None) -> tuple[ModuleType, str]:
    """Run a Python file and return its module and its digest; ValueError if that is not `sha256`. No bytecode
    is stored."""
    source = Path(path).read_bytes()
    digest = hashlib.sha256(source).hexdigest()
    if sha256 and digest != sha256:
        raise ValueError(f"the file {path} changed since the run began; put it back, or begin another run")
    module = ModuleType(f"_user_{Path(path).stem}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses and pydantic look up names of annotations there
    exec(compile(source, path, "exec"), module.__dict__)
    return module, digest


def textual_identity(question: str) -> str:
    """Return the question without regard to white space."""
    return " ".join(question.split())


class UserFile:
    """A loaded file with a function that scores answers."""

    def __init__(self, path: str, sha256: str | None = None, function: str = "score") -> None:
        """Load the file; ValueError if its digest is not `sha256`, or it lacks a part."""
        module, self.sha256 = load_file(path, sha256)
        self.module: Any = module
        self._score = self.function(function)

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function of the file; ValueError if it has none of this name."""
        if not callable(function := getattr(self.module, name, None)):
            raise ValueError(f"{name}: is missing; define a function of this name")
        return function

    def describe(self) -> Any:
        """Return the digest of the file."""
        return self.sha256

    def score(self, entry: Mapping[str, Any], answer: str) -> Any:
        """Return the score of an answer."""
        score = self._score(answer, entry)
        return score.item() if hasattr(score, "item") else score  # a number of numpy


class Generator(UserFile):
    """A loaded file with a generator too."""

    def __init__(self, path: str, sha256: str | None = None) -> None:
        super().__init__(path, sha256)
        self._generate = self.function("generate")
        self._identity = getattr(self.module, "identity", None)
        self._config: Any = getattr(self.module, "Config", None)
        if not (isinstance(self._config, type) and issubclass(self._config, BaseModel)):
            raise ValueError("Config: is missing; define a pydantic model of this name")
        default = {"all": {name: (low, high) for name, (_, low, high) in bounds(self._config).items()}}
        self._fields: dict[str, dict[str, Any]] = getattr(self.module, "STRATA", None) or default
        self._strata = [
            Stratum(name=name, knobs=knobs_of(self._config, fields, f"STRATA.{name}"))
            for name, fields in self._fields.items()
        ]

    def describe(self) -> dict[str, Any]:
        """Return an `envgen.module.environment.Description`."""
        return {
            "sha256": self.sha256,
            "task": getattr(self.module, "TASK", None),
            "canonical": self._identity is not None,
            "strata": [stratum.model_dump() for stratum in self._strata],
        }

    def generate(self, stratum: str, knobs: Mapping[str, float], seed: int) -> dict[str, Any]:
        """Return the item of a seed; it also seeds the global generators of random numbers."""
        random.seed(seed)
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed(seed)
        fixed = {name: value for name, value in self._fields[stratum].items() if not _is_range(value)}
        item = self._generate(random.Random(seed), self._config(**fixed, **knobs))
        if not isinstance(item, tuple) or len(item) not in (2, 3):
            raise TypeError(f"generate returned {item!r:.200}; expected (question, answer, metadata)")
        question, answer, metadata = item if len(item) == 3 else (*item, {})
        for name, text in (("question", question), ("answer", answer)):
            if not isinstance(text, str) or not text.strip():
                raise TypeError(f"its {name} is {text!r:.200}; expected a text")
        entry = {"question": question, "answer": answer, "metadata": metadata}
        if TypeAdapter(JsonValue).validate_python(entry) != entry:
            raise TypeError("metadata: hold what JSON does not; use texts, numbers, lists and dicts")
        json.dumps(entry, ensure_ascii=False).encode()  # half of a surrogate pair cannot be stored
        identity = self._identity(entry) if self._identity else textual_identity(question)
        if not isinstance(identity, str):
            raise TypeError(f"its identity is {identity!r:.200}; expected a text")
        return {"question": question, "answer": answer, "identity": identity, "entry": entry}


def knobs_of(config: type[BaseModel], fields: Mapping[str, Any], where: str) -> tuple[Knob, ...]:
    """Return a knob for each field whose value is a range; ValueError names a field that is wrong."""
    ranges, knobs = bounds(config), list[Knob]()
    for field, value in fields.items():
        place = f"{where}.{field}: "
        if field not in config.model_fields:
            raise ValueError(f"{place}Config has no such field; known are {', '.join(config.model_fields)}")
        if not _is_range(value):
            continue
        if field not in ranges:
            raise ValueError(
                f"{place}{value!r} is a range, but Config.{field} is no int or float with two bounds; "
                "give it Field(ge=..., le=...), or a single value here"
            )
        (whole, lowest, highest), (low, high) = ranges[field], value
        if not lowest <= low < high <= highest:
            raise ValueError(f"{place}{value!r} is no range within {lowest:g} to {highest:g}")
        description = config.model_fields[field].description or f"`{field}` of the generator"
        step = 1.0 if whole else (high - low) / 10
        knobs.append(Knob(name=field, low=low, high=high, step=step, whole=whole, description=description))
    with naming(where, ValueError):
        config(**{field: value[0] if _is_range(value) else value for field, value in fields.items()})
    return tuple(knobs)


def bounds(config: type[BaseModel]) -> dict[str, tuple[bool, float, float]]:
    """Return whether a number is whole, and both ends of its range, for each field that has both."""
    ranges = {}
    for name, schema in config.model_json_schema().get("properties", {}).items():
        whole = schema.get("type") == "integer"
        low = schema.get("minimum", schema.get("exclusiveMinimum", math.nan) + whole)
        high = schema.get("maximum", schema.get("exclusiveMaximum", math.nan) - whole)
        if schema.get("type") in ("integer", "number") and not math.isnan(low + high):
            ranges[name] = whole, low, high
    return ranges


def _is_range(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2
