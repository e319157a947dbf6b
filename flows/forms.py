"""Options that override something where they are given: forms of the Prefect UI, and options of commands."""

import inspect
from collections.abc import Callable, Iterable
from copy import copy
from functools import wraps
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer
from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer
from pydantic.fields import FieldInfo

from envgen.errors import validated
from envgen.frozen import Frozen
from infra.config.dotted import parse_override


def _without_defaults(schema: dict[str, Any]) -> None:
    """Leave the fields of a form empty: the UI would send the defaults that it shows, and override the preset
    with them."""
    for field in schema["properties"].values():
        field.pop("default", None)


class OptionsForm(Frozen):
    """Options that override a preset where they are given; a form shows no defaults."""

    model_config = ConfigDict(json_schema_extra=_without_defaults, use_attribute_docstrings=True)

    @model_serializer(mode="wrap")
    def _given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What was given, and nothing else: stored as parameters of a flow run, it means the same when the
        run is retried."""
        return {name: value for name, value in serialize(self).items() if name in self.model_fields_set}


def field_of(model: type[BaseModel], name: str, enum: Iterable[str] = ()) -> Any:
    """Return the field of another model, with its bounds and description, as a field of a form.

    A form lets choose among the names in `enum`, and takes others. The default None stands for no value.
    """
    field = copy(model.model_fields[name])
    extra = {"enum": [*enum]} if enum else None
    return FieldInfo.merge_field_infos(field, default=None, json_schema_extra=extra)


Form = TypeVar("Form", bound=OptionsForm)


def options_of(form: type[Form], values: dict[str, Any]) -> Form:
    """The form with these values; what is None was not given. ConfigError names the field."""
    return validated(form, {name: value for name, value in values.items() if value is not None}, "options")


def takes_options(form: type[Form]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command each field of a form as an option; it gets them as its parameter `options`. A list is
    written with commas, a dict as `--set a=b`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            options = {name: _value(field, values.pop(name)) for name, field in form.model_fields.items()}
            command(**values, options=options_of(form, options))

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
