"""Data sets of instances as Parquet, with an explicit schema and their origin in the file's metadata."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from envgen.errors import ConfigError, DataError, excerpt
from envgen.files import atomic_path, canonical_json
from envgen.registry import EnvironmentSpec
from envgen.rows import instance_of, instance_row, instance_schema

DAMAGED = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
"""What pyarrow raises for damaged files; undecodable text is a ValueError."""

USUAL = EnvironmentSpec()
"""The environment of a file that names none."""
_ENVIRONMENT = b"envwright.environment"


def write_dataset(
    path: Path, instances: Sequence[Any], style: str, origin: dict, environment: EnvironmentSpec = USUAL
) -> None:
    """Write a data set atomically, prompts in a style of its environment included. `origin` (config, seed,
    sampling report) goes into the file's metadata."""
    loaded = environment.load()
    rows = [instance_row(loaded, instance, style) for instance in instances]
    table = pa.Table.from_pylist(rows, schema=instance_schema(loaded))
    metadata = {
        "envwright.origin": canonical_json(origin),
        "envwright.versions": canonical_json({"envwright": version("envwright"), "pyarrow": pa.__version__}),
    }
    write_table(path, with_environment(table.replace_schema_metadata(metadata), environment))


def with_environment(table: pa.Table, environment: EnvironmentSpec) -> pa.Table:
    """The table with the environment of its instances in the metadata, as `environment_of` reads it."""
    named = {} if environment == USUAL else {_ENVIRONMENT: canonical_json(environment).encode()}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **named})


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table to Parquet atomically, with a checksum of each page that readers verify."""
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, write_page_checksum=True)


def environment_of(path: Path) -> EnvironmentSpec:
    """The environment of a file's instances; DataError if the file is missing or damaged, or names none."""
    with _opened(path) as file:
        stored = (file.schema_arrow.metadata or {}).get(_ENVIRONMENT)
    try:
        spec = USUAL if stored is None else EnvironmentSpec.model_validate_json(stored)
        spec.load()
    except (ValueError, ConfigError) as error:
        raise DataError(f"{path}: its environment cannot be loaded: {error}") from None
    return spec


def read_dataset(path: Path) -> list[Any]:
    """Instances of a data set; DataError if the file is missing, not Parquet, or of another schema."""
    environment = environment_of(path).load()
    rows = read_table(path, instance_schema(environment)).to_pylist()
    return [instance_of(environment, row, f"{path}: row {index}") for index, row in enumerate(rows)]


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """The columns of `schema` from a Parquet file. DataError names the file and the first column that does
    not fit."""

    with _opened(path) as file:
        check_columns(str(path), file.schema_arrow.names, schema.names)
        table, columns = file.read(schema.names), []
        table.validate(full=True)
    for field in schema:
        try:
            columns.append(table.select([field.name]).cast(pa.schema([field])).column(0))
        except DAMAGED as error:
            raise DataError(f"{path}: column {field.name!r} does not hold {field.type} ({error})") from None
    return pa.Table.from_arrays(columns, schema=schema)


def check_columns(name: str, names: Sequence[str], columns: Sequence[str], remedy: str = "") -> None:
    """Raise DataError for the first of `columns` that is missing or stands twice among the names of all."""
    for column in columns:
        top = column if column in names else column.partition(".")[0]
        if names.count(top) > 1:
            raise DataError(f"{name}: column {top!r} stands twice; rename or remove one of them")
        if top not in names:
            raise DataError(f"{name}: column {column!r} is missing; found {excerpt(names)}{remedy}")


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError:
        remedy = "check the path, or make it with 'envwright mapf generate'"
        raise DataError(f"{path}: no such file; {remedy}") from None
    except DAMAGED as error:
        remedy = "make it with 'envwright mapf generate'"
        raise DataError(f"{path}: not a readable Parquet file ({error}); {remedy}") from None
