"""Options that override something where they are given: forms of the Prefect UI, and options of commands."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, TypeVar, get_args

import typer
from pydantic import ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer

from envgen.errors import ConfigError, describe_validation_error
from envgen.frozen import Frozen


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


Form = TypeVar("Form", bound=OptionsForm)


def options_of(form: type[Form], values: dict[str, Any]) -> Form:
    """The form with these values; what is None was not given. ConfigError names the field."""
    try:
        return form.model_validate({name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        raise ConfigError(describe_validation_error(error, "options")) from None


def takes_options(form: type[Form]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command each field of a form as an option; it gets them as its parameter `options`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            given = {name: values.pop(name) for name in form.model_fields}
            command(**values, options=options_of(form, given))

        parameters = dict(inspect.signature(command).parameters)
        del parameters["options"]
        for name, field in form.model_fields.items():
            annotation = Annotated[_read_as(field.annotation) | None, typer.Option(help=field.description)]
            parameters[name] = inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
            )
        run.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
        run.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
        return run

    return decorate


def _read_as(annotation: Any) -> type:
    """Type as which the command line reads a field; the form checks the rest."""
    kinds = {annotation, *get_args(annotation)}
    return next((kind for kind in (int, float) if kind in kinds), str)
