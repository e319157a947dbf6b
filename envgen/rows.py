"""Instances and verdicts as rows of Parquet files; columns follow from the pydantic models.

A nested model becomes a struct, a tuple a list, and a value without a column type (a dict) a JSON text.
"""

import json
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pyarrow as pa
from pydantic import BaseModel

from envgen.environment import Environment
from envgen.errors import naming

_COLUMNS = {"id": pa.string(), "stratum": pa.string(), "labels": pa.list_(pa.string()), "prompt": pa.string()}
"""Columns of every instance."""
_SCALARS = ((bool, pa.bool_()), (int, pa.int64()), (float, pa.float64()), (str, pa.string()))


def instance_schema(environment: Environment) -> pa.Schema:
    """Return the columns of an instance: id, stratum, labels, the fields of its model, prompt."""
    *identity, prompt = (pa.field(name, kind, nullable=False) for name, kind in _COLUMNS.items())
    fields = [field for field in model_columns(environment.instance_type) if field.name not in _COLUMNS]
    return pa.schema([*identity, *fields, prompt])


def instance_row(environment: Environment, instance: Any, style: str) -> dict[str, Any]:
    """Return an instance, with its prompt in a style, as a row of `instance_schema`."""
    identity = {"id": instance.id, "stratum": instance.stratum, "labels": sorted(instance.labels)}
    return {**model_row(instance), **identity, "prompt": environment.prompt(instance, style)}


def instance_of(environment: Environment, row: Mapping[str, Any], where: str) -> Any:
    """Return the instance of a row; DataError names `where`, field and value."""
    return model_of(environment.instance_type, row, f"{where}: not an instance")


def model_row(value: BaseModel) -> dict[str, Any]:
    """Return a value as a row of the columns of its model."""
    row = value.model_dump(mode="json")
    return row | {name: json.dumps(row[name], ensure_ascii=False) for name in _json_fields(type(value))}


def model_of(model: type[BaseModel], row: Mapping[str, Any], where: str) -> Any:
    """Return the value of a row; DataError names `where`, field and value."""
    fields = {name: row[name] for name in model.model_fields}
    with naming(where):
        return model.model_validate(
            fields | {name: json.loads(row[name] or "") for name in _json_fields(model)}
        )


@cache
def _types(model: type[BaseModel]) -> dict[str, pa.DataType | None]:
    """Return the column type of each field; None where it is stored as JSON."""
    return {name: _type(field.annotation) for name, field in model.model_fields.items()}


def model_columns(model: type[BaseModel]) -> list[pa.Field]:
    """Return a column for each field of a model."""
    optional = {name: NoneType in get_args(field.annotation) for name, field in model.model_fields.items()}
    return [pa.field(name, kind or pa.string(), optional[name]) for name, kind in _types(model).items()]


def _json_fields(model: type[BaseModel]) -> list[str]:
    return [name for name, column in _types(model).items() if column is None]


def _type(annotation: Any) -> pa.DataType | None:
    origin = get_origin(annotation)
    arguments = [argument for argument in get_args(annotation) if argument is not NoneType]
    if origin is Annotated or (origin in (Union, UnionType) and len(arguments) == 1):
        return _type(arguments[0])
    if origin in (tuple, list, frozenset, set):
        element = _type(arguments[0])
        return None if element is None else pa.list_(element)
    if not isinstance(annotation, type):
        return None
    if issubclass(annotation, BaseModel):
        types = _types(annotation)
        return None if None in types.values() else pa.struct(list(types.items()))
    return next((column for scalar, column in _SCALARS if issubclass(annotation, scalar)), None)
