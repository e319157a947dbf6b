"""A user's generator file in the worker process; the process that started it never imports the file.

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
import math
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, JsonValue, TypeAdapter

from envgen.worker import textual_identity

STRATUM = "all"
"""The one stratum of a file without `STRATA`."""


def open_file(path: str, sha256: str | None = None) -> "Generator":
    """The generator of a file; ValueError if it changed since `sha256` was taken, or lacks a part."""
    text = Path(path).read_bytes()
    found = hashlib.sha256(text).hexdigest()
    if sha256 and found != sha256:
        raise ValueError("the file changed since the run began; put it back, or begin another run")
    spec = importlib.util.spec_from_file_location(f"_generator_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError("is no Python file; its name has to end in .py")
    module = importlib.util.module_from_spec(spec)
    # Where annotations are texts, dataclasses and pydantic look up their names there.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return Generator(module, found)


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
        self._schema = config.model_json_schema().get("properties", {})
        self._bounds = {name: found for name in config.model_fields if (found := self._bounded(name))}
        full = {STRATUM: {name: (low, high) for name, (_, low, high) in self._bounds.items()}}
        self._strata: dict[str, dict[str, Any]] = getattr(module, "STRATA", None) or full
        for name, fields in self._strata.items():
            if odd := [field for field in fields if field not in config.model_fields]:
                known = ", ".join(config.model_fields)
                raise ValueError(f"STRATA.{name}.{odd[0]}: Config has no such field; known are {known}")

    def describe(self) -> dict[str, Any]:
        """What a space is made of: see `envgen.module.family.Described`."""
        return {
            "sha256": self._sha256,
            "task": getattr(self._module, "TASK", None),
            "canonical": hasattr(self._module, "identity"),
            "strata": [
                {
                    "name": name,
                    "knobs": [self._knob(name, field, at) for field, at in fields.items() if _is_range(at)],
                }
                for name, fields in self._strata.items()
            ],
        }

    def draw(self, stratum: str, knobs: Mapping[str, float], seed: int) -> dict[str, Any]:
        """The item of a seed, see `envgen.worker_family`; the global generators of numbers follow it too."""
        random.seed(seed)
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed(seed)
        fixed = {name: value for name, value in self._strata[stratum].items() if not _is_range(value)}
        made = self._module.generate(random.Random(seed), self._config(**fixed, **knobs))
        if not isinstance(made, tuple) or len(made) not in (2, 3):
            raise TypeError(f"generate returned {made!r:.200}; expected (question, answer, metadata)")
        question, answer, *rest = made
        for what, text in (("question", question), ("answer", answer)):
            if not isinstance(text, str) or not text.strip():
                raise TypeError(f"its {what} is {text!r}; expected a text")
        metadata = rest[0] if rest else {}
        entry = {"question": question, "answer": answer, "metadata": metadata}
        if TypeAdapter(JsonValue).validate_python(entry) != entry:
            raise TypeError("metadata: hold what JSON does not; use texts, numbers, lists and dicts")
        named = self._module.identity(entry) if hasattr(self._module, "identity") else None
        identity = textual_identity(question) if named is None else named
        return {"question": question, "answer": answer, "identity": identity, "entry": entry}

    def score(self, entry: dict[str, Any], answer: str) -> Any:
        """The score of an answer."""
        found = self._module.score(answer, entry)
        return found.item() if hasattr(found, "item") else found  # a number of numpy

    def _bounded(self, name: str) -> tuple[bool, float, float] | None:
        """(whether it is whole, lowest, highest) of a number with both bounds."""
        field = self._schema.get(name, {})
        whole = field.get("type") == "integer"
        low = field.get("minimum", field.get("exclusiveMinimum", math.nan) + whole)
        high = field.get("maximum", field.get("exclusiveMaximum", math.nan) - whole)
        if field.get("type") not in ("integer", "number") or math.isnan(low) or math.isnan(high):
            return None
        return whole, float(low), float(high)

    def _knob(self, stratum: str, field: str, value: tuple[float, float]) -> dict[str, Any]:
        where = f"STRATA.{stratum}.{field}"
        if field not in self._bounds:
            raise ValueError(
                f"{where}: {value!r} is a range, but Config.{field} is no int or float with two bounds; "
                "give it Field(ge=..., le=...), or a single value here"
            )
        whole, lowest, highest = self._bounds[field]
        low, high = value
        if not lowest <= low < high <= highest:
            raise ValueError(f"{where}: {value!r} is no range within {lowest:g} to {highest:g}")
        words = self._config.model_fields[field].description
        return {"name": field, "whole": whole, "low": low, "high": high, "means": words}


def _is_range(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2
