"""A function in a Python file as an engineer: `--engineer ./mine.py:propose`, see docs/engineer.md."""

import inspect
import random
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import create_model

from engineer.answer import NoShareError, check_edits, nearest
from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, Proposal, projected
from envgen.errors import ConfigError, excerpt, validated
from envgen.files import file_digest
from envgen.module.user_file import load_file
from envgen.seeds import seed_integer

Function = Callable[..., Any]


@cache
def function_engineer(name: str, sha256: str) -> type[Engineer]:
    """Return the engineer of `PATH.py:FUNCTION`, whose options are the function's parameters after the
    context; ConfigError if the file cannot be loaded, has another digest than `sha256`, or a parameter has no
    default. A run keeps the code that it began with while the file is edited."""
    function, fields = _load(name, sha256), dict[str, Any]()
    try:
        for option in [*inspect.signature(function, eval_str=True).parameters.values()][1:]:
            if option.kind in (option.VAR_POSITIONAL, option.VAR_KEYWORD):
                continue
            if option.default is option.empty:
                raise TypeError(f"parameter {option.name!r} has no default; give it one")
            guess = Any if option.default is None else type(option.default)
            kind = guess if option.annotation is option.empty else option.annotation
            fields[option.name] = (kind, option.default)
        engineer = create_model("Function", __base__=_Function, **fields)
        validated(engineer, {}, "defaults").model_dump_json()  # a run stores them
    except Exception as error:  # annotations are code, and pydantic has errors of many kinds
        raise ConfigError(f"engineer.name: {name}: {error}") from None
    engineer._call = staticmethod(function)
    return engineer


class _Function(Engineer):
    _call: ClassVar[Function]

    def propose(self, context: DesignContext, brief: Brief) -> Proposal:
        """Return the proposal of what the function returns; its errors are raised, ConfigError for a wrong
        value."""
        seed = seed_integer(brief.seed, context.current.stage, "function-engineer")
        random.seed(seed)
        np.random.seed(seed % 2**32)
        returned = self._call(context, **dict(self))
        answer = returned if isinstance(returned, tuple) else (returned,)
        whole = {1: (*answer, "", {}), 2: (*answer, {}), 3: answer}.get(len(answer), (None, "", {}))
        edits, reason, state = whole
        if not (isinstance(edits, Mapping) and isinstance(reason, str) and isinstance(state, dict)):
            expected = "expected edits, (edits, reason) or (edits, reason, state)"
            raise ConfigError(f"it returned {excerpt(returned)}; {expected}")
        edits, why = {str(name): numbers for name, numbers in edits.items()}, None
        check_edits(edits, context.space, ranges=False)
        raw = {name: {key: float(value) for key, value in part.items()} for name, part in edits.items()}
        try:
            if any(raw.values()):
                return projected(context, {"edits": raw}, reason, state)
        except NoShareError as error:
            why = f"the previous config is kept: {error}"
        return Proposal(config=context.current.config, rationale=reason, state=state, fallback=why)


def digest_of(name: str) -> str:
    """Return the SHA-256 of the file of a function; ConfigError if there is none."""
    path = Path(name.rpartition(":")[0])
    if not path.is_file():
        raise ConfigError(f"engineer.name: {path}: there is no such file; give the path of a Python file")
    return file_digest(path)


def traceback_in(file: str, error: BaseException) -> str:
    """Return the traceback of an error from its first frame in a file; its message alone without one."""
    frame = error.__traceback__
    while frame and frame.tb_frame.f_code.co_filename != file:
        frame = frame.tb_next
    if frame is None:
        return "".join(traceback.format_exception_only(error)).strip()
    return "".join(traceback.format_exception(type(error), error, frame)).strip()


def _load(name: str, sha256: str) -> Function:
    """Run the file and return its function."""
    path, _, function = name.rpartition(":")
    try:
        module, _ = load_file(path, sha256)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"engineer.name: {path} cannot be loaded:\n{traceback_in(path, error)}") from None
    if not callable(target := getattr(module, function, None)):
        names = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise ConfigError(f"engineer.name: {path} has no function {function!r}; {nearest(function, names)}")
    return target
