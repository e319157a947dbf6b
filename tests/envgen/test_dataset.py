"""Data sets in Parquet files: written, read back, and refused if they are damaged or hostile."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from board_makers import solved_instances

from envgen.dataset import USUAL, environment_of, read_dataset, read_table, write_dataset, write_table
from envgen.errors import DataError
from envgen.mapf.problem import identity
from envgen.mapf.prompts import PromptStyle, prompt
from envgen.registry import EnvironmentSpec
from envgen.rows import instance_row, instance_schema

BOARDS = USUAL.load()
INSTANCES = [
    i.model_copy(update={"problem": i.problem.model_copy(update={"id": identity(i.problem)})})
    for seed, shape in enumerate([(3, 1, 1), (3, 0, 3), (4, 4, 2), (10, 20, 2)])
    for i in solved_instances(seed, 5, *shape)
]
SCHEMA = instance_schema(BOARDS)
ROWS = [instance_row(BOARDS, one, PromptStyle.COMPACT) for one in INSTANCES]
TABLE = pa.Table.from_pylist(ROWS, schema=SCHEMA)
JUMPING = [[p[0], p[0], *p[2:]] if len(p) > 3 else p for p in ROWS[-1]["solution"]["plan"]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "train.parquet"


@pytest.mark.parametrize("style", list(PromptStyle))
def test_a_data_set_reads_back_as_it_was_written(path: Path, style: PromptStyle):
    write_dataset(path, INSTANCES, style, {})
    assert read_dataset(path) == INSTANCES
    table = pq.read_table(path)
    assert table["prompt"].to_pylist() == [prompt(i.problem, style) for i in INSTANCES]
    assert table["stratum"].to_pylist() == [i.stratum for i in INSTANCES]
    assert [set(labels) for labels in table["labels"].to_pylist()] == [i.labels for i in INSTANCES]
    assert [p.name for p in path.parent.iterdir()] == ["train.parquet"]


def test_a_data_set_names_its_environment(path: Path):
    for spec in (EnvironmentSpec(), EnvironmentSpec(options={"agents": 3}).resolved()):
        write_dataset(path, [], PromptStyle.BOARD, {}, spec)
        assert environment_of(path) == spec
        assert read_dataset(path) == []
    write_table(path, TABLE.replace_schema_metadata({"envwright.environment": '{"name": "chess"}'}))
    with pytest.raises(DataError, match=r"train\.parquet: .*there is no environment 'chess'"):
        read_dataset(path)


def test_the_file_carries_its_origin_and_the_versions_that_made_it(path: Path):
    origin = {"config": {"sizes": {4: {"wait_ratio": 0.5}}}, "seed": 3, "note": "Füße"}
    write_dataset(path, INSTANCES, PromptStyle.BOARD, origin)
    metadata = pq.read_schema(path).metadata
    assert json.loads(metadata[b"envwright.origin"]) == json.loads(json.dumps(origin))
    assert set(json.loads(metadata[b"envwright.versions"])) == {"envwright", "pyarrow"}


def test_writing_twice_gives_the_same_bytes_and_replaces_the_file(path: Path):
    write_dataset(path, INSTANCES, PromptStyle.BOARD, {"seed": 1})
    first = path.read_bytes()
    write_dataset(path, INSTANCES[:1], PromptStyle.BOARD, {"seed": 1})
    assert read_dataset(path) == INSTANCES[:1]
    write_dataset(path, INSTANCES, PromptStyle.BOARD, {"seed": 1})
    assert path.read_bytes() == first


def test_further_columns_do_no_harm(path: Path):
    write_table(path, TABLE.append_column("note", pa.array(["x"] * len(INSTANCES))))
    assert read_dataset(path) == INSTANCES
    schema = pa.schema([SCHEMA.field("prompt"), SCHEMA.field("id")])
    assert read_table(path, schema) == TABLE.select(["prompt", "id"])


def test_a_file_that_is_not_parquet_is_named(path: Path):
    with pytest.raises(DataError, match=r"train\.parquet: no such file; check the path"):
        read_dataset(path)
    write_table(path, TABLE)
    truncated = path.read_bytes()[:-20]
    for content in (b"", b"PAR1", b"not parquet at all" * 100, b"PAR1" + b"\0" * 1_000 + b"PAR1", truncated):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"train\.parquet: not a readable Parquet file"):
            read_dataset(path)


def test_a_column_that_is_missing_or_stands_twice_is_named(path: Path):
    write_table(path, TABLE.append_column("id", TABLE["id"]))
    with pytest.raises(DataError, match=r"train\.parquet: column 'id' stands twice"):
        read_dataset(path)
    for column in SCHEMA.names:
        write_table(path, TABLE.drop_columns(column))
        with pytest.raises(DataError, match=rf"train\.parquet: column '{column}' is missing; found "):
            read_dataset(path)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("id", pa.array([None] * 20, pa.string())),
        ("problem", pa.array(["four"] * 20)),
        ("problem", pa.array([4.5] * 20)),
        ("solution", pa.array([{"plan": "up"}] * 20)),
    ],
)
def test_a_column_of_the_wrong_type_is_named_with_its_file(path: Path, column: str, values: pa.Array):
    write_table(path, TABLE.set_column(TABLE.column_names.index(column), column, values))
    with pytest.raises(DataError, match=rf"train\.parquet: column '{column}' does not hold "):
        read_dataset(path)


@pytest.mark.parametrize(
    ("part", "field", "value", "complaint"),
    [
        ("problem", "size", 10**9, "problem.size: Input should be less than or equal to 10 (got 1000000000)"),
        ("problem", "holes", [[0, 0], [0, 0]], "a hole is listed twice"),
        ("problem", "agents", [{"start": [-1, 0], "goal": [2, 0]}], "start.0: Input should be greater than"),
        ("problem", "agents", [], "problem.agents"),
        ("solution", "plan", [], "does not lead each agent from its start to its goal"),
        ("solution", "plan", [None], "solution.plan.0"),
        ("solution", "plan", JUMPING, "a path jumps over a cell"),
        ("solution", "sum_of_costs", 99, "sum_of_costs and makespan do not fit the plan"),
        ("solution", "makespan", 0, "sum_of_costs and makespan do not fit the plan"),
    ],
)
def test_a_row_that_is_no_instance_is_refused(path: Path, part: str, field: str, value: Any, complaint: str):
    row = {**ROWS[-1], part: {**ROWS[-1][part], field: value}}
    write_table(path, pa.Table.from_pylist([ROWS[0], row], schema=SCHEMA))
    with pytest.raises(DataError) as caught:
        read_dataset(path)
    assert str(caught.value).startswith(f"{path}: row 1: not an instance: ")
    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 500
