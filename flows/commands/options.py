"""Options of commands, derived from the fields of a form."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from envgen.errors import validated
from flows.parameters import OptionsForm
from infra.config.dotted import parse_override


def takes_options(form: type[OptionsForm]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command each field of a form as an option; it gets them as its parameter `options`. A list is
    written with commas, a dict as `--set a=b`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            options = {name: _value(field, values.pop(name)) for name, field in form.model_fields.items()}
            chosen = {name: value for name, value in options.items() if value is not None}
            command(**values, options=validated(form, chosen, "options"))

        parameters = dict(inspect.signature(command).parameters)
        del parameters["options"]
        for name, field in form.model_fields.items():
            parameters[name] = inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(field)
            )
        run.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
        run.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
        return run

    return decorate


def _option(field: FieldInfo) -> Any:
    """The annotation with which typer reads a field; the form checks the rest."""
    kinds = [field.annotation, get_origin(field.annotation), *get_args(field.annotation)]
    if dict in kinds:
        return Annotated[
            list[str] | None, typer.Option("--set", help=f"{field.description} May be repeated.")
        ]
    read_as = next((kind for kind in (int, float) if kind in kinds and list not in kinds), str)
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    choices: Any = extra.get("enum") or (get_args(field.annotation) if Literal in kinds else ())
    more = " Several have commas between them." if list in kinds else ""
    more += f" One of {', '.join(choices)}." if choices else ""
    return Annotated[read_as | None, typer.Option(help=f"{field.description}{more}")]


def _value(field: FieldInfo, text: Any) -> Any:
    """What a field is given as on the command line; None if it is not."""
    if text is None or get_origin(field.annotation) not in (list, dict):
        return text
    if isinstance(text, str):
        return [item.strip() for item in text.split(",")]
    return dict(map(parse_override, text)) or None
