"""Data sets of instances as Parquet, with an explicit schema and their origin in the file's metadata."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from envgen.errors import DataError, describe_validation_error, shown
from envgen.files import atomic_path, canonical_json
from envgen.mapf.problem import Agent, Instance, Problem, Solution, moves_of, path_of
from envgen.mapf.prompts import PromptStyle, prompt

MAX_VALUES = 100_000_000
"""Values in the columns that are read of a file at most; a small file can claim any number of them."""
MAX_LIST = 1_000
"""Elements of one list in a column at most."""

_CELL = pa.list_(pa.int8(), 2)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata={"doc": "canonical identity, 32 hex digits"}),
        pa.field("size", pa.int8(), nullable=False),
        pa.field("num_agents", pa.int8(), nullable=False),
        pa.field(
            "holes",
            pa.list_(_CELL),
            nullable=False,
            metadata={"doc": "(row, column), 0-indexed from the top left"},
        ),
        pa.field("starts", pa.list_(_CELL), nullable=False),
        pa.field("goals", pa.list_(_CELL), nullable=False),
        pa.field("sum_of_costs", pa.int16(), nullable=False, metadata={"doc": "optimal, in steps"}),
        pa.field("makespan", pa.int16(), nullable=False, metadata={"doc": "of the stored plan, in steps"}),
        pa.field("wait_required", pa.bool_(), nullable=False),
        pa.field(
            "waits",
            pa.int16(),
            nullable=False,
            metadata={"doc": "waits of the stored plan; no optimal plan has fewer"},
        ),
        pa.field(
            "plan",
            pa.list_(pa.list_(pa.string())),
            nullable=False,
            metadata={"doc": "moves of each agent up to its last arrival"},
        ),
        pa.field("prompt", pa.string(), nullable=False),
    ]
)

NAME = pa.field(
    "name",
    pa.string(),
    nullable=False,
    metadata={"doc": "id that the problem had in the file it was converted from, may be empty"},
)
"""A column that converted data sets have besides."""


def to_table(instances: list[Instance], style: PromptStyle) -> pa.Table:
    """Instances as a table of `SCHEMA`, prompts included."""
    rows = [
        {
            "id": i.problem.id,
            "size": i.problem.size,
            "num_agents": i.problem.num_agents,
            "holes": i.problem.holes,
            "starts": [a.start for a in i.problem.agents],
            "goals": [a.goal for a in i.problem.agents],
            "sum_of_costs": i.solution.sum_of_costs,
            "makespan": i.solution.makespan,
            "wait_required": i.solution.wait_required,
            "waits": i.solution.waits,
            "plan": [moves_of(path) for path in i.solution.plan],
            "prompt": prompt(i.problem, style),
        }
        for i in instances
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def write_dataset(
    path: Path,
    instances: list[Instance],
    style: PromptStyle,
    origin: dict,
    extra: Sequence[tuple[pa.Field, Sequence]] = (),
) -> None:
    """Write a data set atomically.

    `origin` (config, seed, sampling report) goes into the file's metadata, `extra` into columns of its own,
    as `NAME`.
    """
    metadata = {
        "envwright.origin": canonical_json(origin),
        "envwright.versions": canonical_json({"envwright": version("envwright"), "pyarrow": pa.__version__}),
    }
    table = to_table(instances, style)
    for field, values in extra:
        table = table.append_column(field, pa.array(values, field.type))
    write_table(path, table.replace_schema_metadata(metadata))


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table to Parquet atomically."""
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary)


def read_dataset(path: Path) -> list[Instance]:
    """Instances of a data set; DataError if the file is missing, not Parquet, or of another schema."""
    table = read_table(path, SCHEMA)
    return [instance_of_row(row, f"{path}: row {index}") for index, row in enumerate(table.to_pylist())]


def read_named(path: Path) -> list[Instance]:
    """As `read_dataset`, but each problem has the id that it had before conversion, if it had one."""
    instances = read_dataset(path)
    if NAME.name not in pq.read_schema(path).names:
        return instances
    names = read_table(path, pa.schema([NAME])).column(0).to_pylist()
    problems = [
        i.problem.model_copy(update={"id": name}) if name else i.problem
        for i, name in zip(instances, names, strict=True)
    ]
    return [i.model_copy(update={"problem": problem}) for i, problem in zip(instances, problems, strict=True)]


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """The columns of `schema` from a Parquet file.

    DataError names the file and the first column that does not fit.
    """
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            for field in schema:
                if field.name not in names:
                    raise DataError(f"{path}: column {field.name!r} is missing; found {shown(names)}")
            _check_size(path, file.metadata, schema.names)
            table = file.read(schema.names)
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such file; check the path, or make it with 'envwright generate'"
        ) from None
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"{path}: not a readable Parquet file ({error}); make it with 'envwright generate'"
        ) from None
    columns = []
    for field in schema:
        try:
            columns.append(table.select([field.name]).cast(pa.schema([field])).column(0))
        except (pa.ArrowException, ValueError) as error:
            raise DataError(f"{path}: column {field.name!r} does not hold {field.type} ({error})") from None
        if _longest_list(columns[-1]) > MAX_LIST:
            raise DataError(
                f"{path}: column {field.name!r} has a list of {_longest_list(columns[-1]):,} elements, "
                f"at most {MAX_LIST:,} are read"
            )
    return pa.Table.from_arrays(columns, schema=schema)


def instance_of_row(row: dict, where: str) -> Instance:
    """An instance from a row of `SCHEMA`; DataError names `where`, field and value."""
    try:
        agents = tuple(
            Agent(start=tuple(start), goal=tuple(goal))
            for start, goal in zip(row["starts"], row["goals"], strict=True)
        )
        problem = Problem(
            id=row["id"], size=row["size"], holes=tuple(map(tuple, row["holes"])), agents=agents
        )
        plan = tuple(path_of(agent.start, moves) for agent, moves in zip(agents, row["plan"], strict=True))
        solution = Solution(
            sum_of_costs=row["sum_of_costs"],
            makespan=row["makespan"],
            wait_required=row["wait_required"],
            waits=row["waits"],
            plan=plan,
        )
    except ValidationError as error:
        raise DataError(describe_validation_error(error, f"{where}: not an instance")) from None
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{where}: not an instance: {error}; make the file with 'envwright generate' "
            "or 'envwright convert'"
        ) from None
    arrivals = [len(path) - 1 for path in plan]
    if [path[-1] for path in plan] != [agent.goal for agent in agents] or (sum(arrivals), max(arrivals)) != (
        solution.sum_of_costs,
        solution.makespan,
    ):
        raise DataError(
            f"{where}: not an instance: sum_of_costs {solution.sum_of_costs} and makespan "
            f"{solution.makespan} are not those of the plan, "
            "or the plan misses a goal; make the file with 'envwright generate' or 'envwright convert'"
        )
    return Instance(problem=problem, solution=solution)


def _check_size(path: Path, metadata: pq.FileMetaData, names: list[str]) -> None:
    """DataError for a file that says of itself that its columns `names` hold more values than are read."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(group.num_columns)]
    values = sum(column.num_values for column in columns if column.path_in_schema.split(".")[0] in names)
    if values > MAX_VALUES:
        raise DataError(f"{path}: holds {values:,} values, at most {MAX_VALUES:,} are read; split the file")


def _longest_list(column: pa.ChunkedArray | pa.Array) -> int:
    """Elements of the longest list of variable length in a column, nested ones included."""
    longest = 0
    while pa.types.is_list(column.type):
        longest = max(
            longest, pc.call_function("max", [pc.call_function("list_value_length", [column])]).as_py() or 0
        )
        column = pc.call_function("list_flatten", [column])
    return longest
