"""`@step` makes a function a step of a run: a Prefect task whose files are made once.

The function writes files; the step returns what the first of them holds, or a `Stored` for data and weights:
that is what the next step takes. Its key is a digest of the values it takes and of what `decides` returns. A
step whose record has this key, and whose files are as it wrote them, is not done again: Prefect shows
`Cached`. A step whose model's process ended is tried once more, and asks for the missing answers."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from prefect import State, task
from prefect.cache_policies import NO_CACHE
from prefect.context import TaskRunContext
from prefect.states import Completed

from engineer.gate import BASE_POLICY
from envgen.errors import EndedError
from infra.runs.files import File
from infra.runs.run import Run
from infra.runs.steps import Stored, run_step
from tasks.run import log

Body = Callable[..., dict[str, Any] | None]
Decides = Callable[..., dict[str, Any]]


def step(
    name: str, *writes: File[Any] | str, decides: Decides = lambda *_: {}, unfinished: str | None = None
) -> Callable[[Body], Callable[..., Any]]:
    """Make a function of a run, the number of a stage and values of earlier steps a step; it may return facts
    for the manifest. `writes` are its files, or the name of a folder; `unfinished` names what it keeps beside
    them until it is done. A value that is None is no part of the key."""

    def decorate(body: Body) -> Callable[..., Any]:
        names = [*signature(body).parameters][2:]

        @task(name=name, cache_policy=NO_CACHE, retries=1, retry_condition_fn=_model_ended)
        @wraps(body)
        def cached(run: Run, stage: int | None = None, *values: Any) -> Any:
            passed = zip(names, values, strict=False)
            inputs = {name: _content(value) for name, value in passed if value is not None}
            record = run_step(
                run.folder(stage),
                name,
                {**inputs, **decides(run, stage, *values)},
                tuple(_name(file) for file in writes),
                lambda: body(run, stage, *values),
                unfinished=unfinished,
            )
            if record.reused:
                place = "" if stage in (None, BASE_POLICY) else f"stage {stage}: "
                log.info("%s%s: kept", place, name)
            value = _value(run, stage, writes[0], record.outputs)
            return Completed(name="Cached", data=value) if record.reused and TaskRunContext.get() else value

        @wraps(body)
        def call(*arguments: Any) -> Any:
            returned = cached(*arguments)
            return returned.data.result if isinstance(returned, State) else returned  # type: ignore[union-attr]

        call.fn = cached.fn  # type: ignore[attr-defined]
        return call

    return decorate


def _model_ended(task: Any, task_run: Any, state: State) -> bool:
    return isinstance(state.result(raise_on_failure=False), EndedError)


def _value(run: Run, stage: int | None, file: File[Any] | str, outputs: dict[str, str]) -> Any:
    if isinstance(file, File) and not file.stored:
        return run.read(file, stage)
    return Stored(path=run.folder(stage) / _name(file), sha256=outputs[_name(file)])


def _name(file: File[Any] | str) -> str:
    return file if isinstance(file, str) else file.name


def _content(value: Any) -> Any:
    """What a key holds of a value: a digest of what is stored elsewhere, wherever it lies."""
    return value.sha256 if isinstance(value, Stored) else value
