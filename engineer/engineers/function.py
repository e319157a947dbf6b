"""A function in a Python file as an engineer: `--engineer ./mine.py:propose`, see docs/engineer.md."""

import difflib
import hashlib
import inspect
import math
import random
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from pydantic import create_model

from engineer.answer import filled_shares
from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions, proposal_of
from engineer.engineers.guards import current_parts
from engineer.proposal import Proposal
from envgen.config import SHARE
from envgen.errors import ConfigError, excerpt, validated
from envgen.seeds import seed_integer

Function = Callable[..., Any]
_FUNCTIONS: dict[tuple[str, str], Function] = {}
"""Name and digest -> function: a run keeps the code that it began with while its file is edited."""


def function_engineer(name: str, sha256: str) -> Engineer[Any]:
    """Return the engineer of `PATH.py:FUNCTION`; ConfigError if the file cannot be loaded, has another digest
    than `sha256`, or a parameter has no default."""
    if (name, sha256) not in _FUNCTIONS:
        _FUNCTIONS[name, sha256] = _load(name, sha256)
    function = _FUNCTIONS[name, sha256]
    return Engineer(partial(_propose, function), _options(name, function))


def digest_of(name: str) -> str:
    """Return the SHA-256 of the file of a function; ConfigError if there is none."""
    return hashlib.sha256(_source(name)).hexdigest()


def traceback_in(file: str, error: BaseException) -> str:
    """Return the traceback of an error from its first frame in a file; its message alone without one."""
    frame = error.__traceback__
    while frame and frame.tb_frame.f_code.co_filename != file:
        frame = frame.tb_next
    if frame is None:
        return "".join(traceback.format_exception_only(error)).strip()
    return "".join(traceback.format_exception(type(error), error, frame)).strip()


def _source(name: str) -> bytes:
    path = Path(name.rpartition(":")[0])
    if not path.is_file():
        raise ConfigError(f"engineer.name: {path}: there is no such file; give the path of a Python file")
    return path.read_bytes()


def _load(name: str, sha256: str) -> Function:
    """Run the file and return its function. No bytecode is stored beside it."""
    (path, _, function), source = name.rpartition(":"), _source(name)
    if hashlib.sha256(source).hexdigest() != sha256:
        remedy = "put it back, or begin another run or arm"
        raise ConfigError(f"engineer.name: {path} changed since the run began; {remedy}")
    module = ModuleType(f"_engineer_{Path(path).stem}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses and pydantic look up annotations there
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"engineer.name: {path} cannot be loaded:\n{traceback_in(path, error)}") from None
    if not callable(target := getattr(module, function, None)):
        names = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise ConfigError(f"engineer.name: {path} has no function {function!r}; {nearest(function, names)}")
    return target


def _options(name: str, function: Function) -> type[EngineerOptions]:
    """Return the model of a function's options: its parameters after the context, by annotation or by the
    type of the default."""
    fields: dict[str, Any] = {}
    try:
        for option in [*inspect.signature(function, eval_str=True).parameters.values()][1:]:
            if option.kind in (option.VAR_POSITIONAL, option.VAR_KEYWORD):
                continue
            if option.default is option.empty:
                raise TypeError(f"parameter {option.name!r} has no default; give it one")
            guess = Any if option.default is None else type(option.default)
            kind = guess if option.annotation is option.empty else option.annotation
            fields[option.name] = (kind, option.default)
        model = create_model("Options", __base__=EngineerOptions, **fields)
        validated(model, {}, "defaults").model_dump_json()  # a run stores them
        return model
    except Exception as error:  # annotations are code, and pydantic has errors of many kinds
        raise ConfigError(f"engineer.name: {name}: {error}") from None


def _propose(function: Function, context: DesignContext, options: EngineerOptions, brief: Brief) -> Proposal:
    """Return the proposal of what a function returns; its errors are raised, ValueError for a wrong value."""
    seed = seed_integer(brief.seed, context.current.stage, "function-engineer")
    random.seed(seed)
    np.random.seed(seed % 2**32)
    returned = function(context, **dict(options))
    answer = returned if isinstance(returned, tuple) else (returned,)
    whole = {1: (*answer, "", {}), 2: (*answer, {}), 3: answer}.get(len(answer), (None, "", {}))
    edits, reason, state = whole
    if not (isinstance(edits, Mapping) and isinstance(reason, str) and isinstance(state, dict)):
        expected = "expected edits, (edits, reason) or (edits, reason, state)"
        raise ValueError(f"it returned {excerpt(returned)}; {expected}")
    parts = _edited(edits, context)
    if all(part[SHARE] <= 0 for part in parts.values()):
        why = "the previous config is kept: every data_ratio is 0"
        fields = {"rationale": reason, "state": state, "fallback": why}
        return proposal_of(brief.spec, context, context.current.config, **fields)
    return brief.proposal(context, {context.space.key: parts}, reason, state=state)


def _edited(edits: Mapping[Any, Any], context: DesignContext) -> dict[str, dict[str, float]]:
    """Return the share and the knobs of each stratum after edits, not yet clamped; ValueError names a wrong
    one."""
    parts = {name: {SHARE: part[SHARE], **part.knobs} for name, part in current_parts(context).items()}
    for key, numbers in edits.items():
        if (name := str(key)) not in parts:
            raise ValueError(f"there is no {context.space.noun} {name!r}; {nearest(name, parts)}")
        if not isinstance(numbers, Mapping):
            raise ValueError(f"{name}: {excerpt(numbers)} is no dict of numbers by name; return one")
        for field, value in numbers.items():
            if field not in parts[name]:
                raise ValueError(f"{name}.{field}: there is no such number; {nearest(field, parts[name])}")
            if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
                raise ValueError(f"{name}.{field}: {excerpt(value)} is no finite number; return one")
            parts[name][field] = float(value)
    named = {str(key): max(parts[str(key)][SHARE], 0.0) for key, numbers in edits.items() if SHARE in numbers}
    shares = filled_shares(named, current_parts(context), True)
    total = math.fsum(shares.values()) or 1
    return {name: {**part, SHARE: shares[name] / total} for name, part in parts.items()}


def nearest(name: Any, names: Iterable[str]) -> str:
    """Return what a message says of a name that does not exist."""
    near = difflib.get_close_matches(str(name), [*names], n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names) or 'none'}"
