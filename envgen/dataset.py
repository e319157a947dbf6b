"""Data sets of instances as Parquet, with an explicit schema and their origin in the file's metadata."""

from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from envgen.errors import DataError
from envgen.files import atomic_path, canonical_json
from envgen.problem import Agent, Instance, Problem, Solution, moves_of, path_of
from envgen.prompts import PromptStyle, prompt

_CELL = pa.list_(pa.int8(), 2)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata={"doc": "canonical identity, 32 hex digits"}),
        pa.field("size", pa.int8(), nullable=False),
        pa.field("num_agents", pa.int8(), nullable=False),
        pa.field("holes", pa.list_(_CELL), nullable=False, metadata={"doc": "(row, column), 0-indexed from the top left"}),
        pa.field("starts", pa.list_(_CELL), nullable=False),
        pa.field("goals", pa.list_(_CELL), nullable=False),
        pa.field("sum_of_costs", pa.int16(), nullable=False, metadata={"doc": "optimal, in steps"}),
        pa.field("makespan", pa.int16(), nullable=False, metadata={"doc": "of the stored plan, in steps"}),
        pa.field("wait_required", pa.bool_(), nullable=False),
        pa.field("waits", pa.int16(), nullable=False, metadata={"doc": "waits of the stored plan; no optimal plan has fewer"}),
        pa.field("plan", pa.list_(pa.list_(pa.string())), nullable=False, metadata={"doc": "moves of each agent up to its last arrival"}),
        pa.field("prompt", pa.string(), nullable=False),
    ]
)


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


def write_dataset(path: Path, instances: list[Instance], style: PromptStyle, origin: dict) -> None:
    """Write a data set atomically; `origin` (config, seed, sampling report) goes into the file's metadata."""
    metadata = {
        "envwright.origin": canonical_json(origin),
        "envwright.versions": canonical_json({"envwright": version("envwright"), "pyarrow": pa.__version__}),
    }
    write_table(path, to_table(instances, style).replace_schema_metadata(metadata))


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table to Parquet atomically."""
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary)


def read_dataset(path: Path) -> list[Instance]:
    """Instances of a data set; DataError if the file is missing, not Parquet, or of another schema."""
    table = read_table(path, SCHEMA)
    return [instance_of_row(row, f"{path}: row {index}") for index, row in enumerate(table.to_pylist())]


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """The columns of `schema` from a Parquet file; DataError names the file and the first column that does not fit."""
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; check the path, or make it with 'envwright generate'") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: not a readable Parquet file ({error}); make it with 'envwright generate'") from None
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            raise DataError(f"{path}: column {field.name!r} is missing; found {', '.join(table.column_names)}")
        try:
            columns.append(table.select([field.name]).cast(pa.schema([field])).column(0))
        except (pa.ArrowException, ValueError) as error:
            raise DataError(f"{path}: column {field.name!r} does not hold {field.type} ({error})") from None
    return pa.Table.from_arrays(columns, schema=schema)


def instance_of_row(row: dict, where: str) -> Instance:
    """An instance from a row of `SCHEMA`; DataError names `where`."""
    try:
        agents = tuple(Agent(start=tuple(start), goal=tuple(goal)) for start, goal in zip(row["starts"], row["goals"], strict=True))
        problem = Problem(id=row["id"], size=row["size"], holes=tuple(map(tuple, row["holes"])), agents=agents)
        plan = tuple(path_of(agent.start, moves) for agent, moves in zip(agents, row["plan"], strict=True))
        solution = Solution(sum_of_costs=row["sum_of_costs"], makespan=row["makespan"], wait_required=row["wait_required"], waits=row["waits"], plan=plan)
    except (ValidationError, ValueError, TypeError) as error:
        raise DataError(f"{where}: not an instance: {error}") from None
    return Instance(problem=problem, solution=solution)
