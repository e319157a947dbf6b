"""Engineers by name: our own, those that packages add through the entry points `envwright.engineers`, and
functions in Python files, as `./mine.py:propose`. See docs/engineer.md."""

import inspect
import random
import re
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import create_model

from engineer.answer import NoShareError, check_edits, nearest
from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, Proposal, projected
from engineer.spec import EngineerSpec, is_function, short_name
from envgen.errors import ConfigError, excerpt, validated
from envgen.files import file_digest
from envgen.module.user_file import load_file
from envgen.registry import Registry
from envgen.seeds import seed_integer
from envgen.space import Space

_ENGINEERS = Registry(
    group="envwright.engineers",
    field="engineer.name",
    kind=Engineer,
    ours={
        "checkpoint": "engineer.engineers.llm:Checkpoint",
        "base": "engineer.engineers.llm:Base",
        "openai": "engineer.engineers.llm:OpenAI",
        "random": "engineer.engineers.guards:Random",
        "fixed": "engineer.engineers.guards:Fixed",
        "frontier": "engineer.engineers.rules:Frontier",
        "bandit": "engineer.engineers.rules:Bandit",
        "learnability": "engineer.engineers.rules:Learnability",
        "gaussian": "engineer.engineers.rules:Gaussian",
        "window": "engineer.engineers.rules:Window",
        "levels": "engineer.engineers.rules:Levels",
        "replay": "engineer.engineers.guards:Replay",
    },
)


known_engineers = _ENGINEERS.names
"""Returns every name that `find_engineer` knows, our own first."""


def find_engineer(name: str, sha256: str = "") -> type[Engineer]:
    """Return the engineer of a name; ConfigError if it is unknown, given twice or cannot be loaded, or a file
    has another digest than `sha256`."""
    if is_function(name):
        stem = short_name(name)
        if stem in known_engineers() or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", stem):
            remedy = f"rename {stem}.py, with letters, digits, dots, underscores and dashes"
            raise ConfigError(f"engineer.name: {stem!r} is another engineer, or cannot be a name; {remedy}")
        return function_engineer(name, sha256 or digest_of(name))
    if name.endswith(".py"):
        raise ConfigError(f"engineer.name: {name!r} names no function; write {name}:propose")
    return _ENGINEERS.load(name)


def asks(name: str) -> Literal["checkpoint", "base"] | None:
    """Return the policy that an engineer asks; None if it asks none. The file of a function is not read."""
    return None if is_function(name) else find_engineer(name).asks


def reads_context(name: str) -> bool:
    """Whether an engineer reads the context in words, so that the context matters."""
    return not is_function(name) and find_engineer(name).reads_context


def engineer_label(name: str, context: str) -> str:
    """Return the name of an engineer in tables: `checkpoint-V6`, or `random` if it reads no context."""
    return f"{name}-{context}" if reads_context(name) else short_name(name)


def split_context(text: str) -> tuple[str, str]:
    """Return the engineer and the context of `checkpoint:V1`; the context is empty if none is named."""
    name, _, context = (text, "", "") if is_function(text) else text.partition(":")
    return name, context


def load(spec: EngineerSpec) -> Engineer:
    """Return the engineer of a spec with its options, defaults filled in; ConfigError names the field."""
    engineer = find_engineer(spec.name, spec.sha256)
    where, fields = f"engineer.options of engineer {short_name(spec.name)!r}", engineer.model_fields
    for name in spec.options.keys() - fields.keys():  # without the value, which may be a key
        raise ConfigError(f"{where}: there is no {name!r}; {nearest(name, fields)}")
    return validated(engineer, spec.options, where)


def resolve(spec: EngineerSpec, space: Space, stages: int) -> EngineerSpec:
    """Return the spec with the engineer's options filled in, after all checks that need no run; ConfigError
    says what is wrong."""
    engineer = load(spec)
    sha256 = (spec.sha256 or digest_of(spec.name)) if is_function(spec.name) else ""
    try:
        engineer.check_fit(space, stages)
    except ValueError as error:
        raise ConfigError(f"engineer.options of engineer {short_name(spec.name)!r}: {error}") from None
    return spec.model_copy(update={"options": engineer.model_dump(mode="json"), "sha256": sha256})


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
    _call: ClassVar[Callable[..., Any]]

    def propose(self, context: DesignContext, brief: Brief) -> Proposal:
        """Return the proposal of what the function returns; its errors, and ConfigError for wrong values."""
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
    lines = traceback.format_exception(type(error), error, frame, chain=frame is not None)
    return "".join(lines).strip()


def _load(name: str, sha256: str) -> Callable[..., Any]:
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
