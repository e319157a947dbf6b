import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from board_makers import make_problem, solved_instances

from envgen.dataset import family_of, read_dataset, read_table, write_dataset, write_table
from envgen.errors import DataError
from envgen.families import FamilySpec
from envgen.mapf.problem import Instance, identity
from envgen.mapf.prompts import PromptStyle, prompt
from envgen.mapf.rows import SCHEMA, row_of
from envgen.mapf.solver.solve import solve


def named(instances: list[Instance]) -> list[Instance]:
    return [
        i.model_copy(update={"problem": i.problem.model_copy(update={"id": identity(i.problem)})})
        for i in instances
    ]


INSTANCES = named(
    [
        i
        for seed, shape in enumerate([(3, 1, 1), (3, 0, 3), (4, 4, 2), (10, 20, 2)])
        for i in solved_instances(seed, 5, *shape)
    ]
)
TABLE = pa.Table.from_pylist([row_of(one, PromptStyle.COMPACT) for one in INSTANCES], schema=SCHEMA)
STARTS = SCHEMA.field("starts").type
PLAN = SCHEMA.field("plan").type


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "train.parquet"


@pytest.mark.parametrize("style", list(PromptStyle))
def test_a_data_set_reads_back_as_it_was_written(path: Path, style: PromptStyle):
    write_dataset(path, INSTANCES, style, {})
    assert read_dataset(path) == INSTANCES
    assert pq.read_table(path).column("prompt").to_pylist() == [prompt(i.problem, style) for i in INSTANCES]
    assert [p.name for p in path.parent.iterdir()] == ["train.parquet"]


@pytest.mark.parametrize("spec", [FamilySpec(), FamilySpec(options={"agents": 3}).resolved()])
def test_a_data_set_names_its_family(path: Path, spec: FamilySpec):
    write_dataset(path, INSTANCES, PromptStyle.BOARD, {}, spec)
    assert family_of(path) == spec


def test_a_data_set_of_an_unknown_family_is_named(path: Path):
    write_table(path, TABLE.replace_schema_metadata({"envwright.family": '{"name": "chess"}'}))
    with pytest.raises(DataError, match=r"train\.parquet: .*there is no family 'chess'"):
        read_dataset(path)


def test_an_empty_data_set_survives_the_round_trip(path: Path):
    write_dataset(path, [], PromptStyle.BOARD, {})
    assert read_dataset(path) == []


def test_the_file_carries_its_origin_and_the_versions_that_made_it(path: Path):
    origin = {"config": {"sizes": {4: {"wait_ratio": 0.5}}}, "seed": 3, "note": "Füße"}
    write_dataset(path, INSTANCES, PromptStyle.BOARD, origin)
    metadata = pq.read_schema(path).metadata
    assert json.loads(metadata[b"envwright.origin"]) == {
        "config": {"sizes": {"4": {"wait_ratio": 0.5}}},
        "seed": 3,
        "note": "Füße",
    }
    assert set(json.loads(metadata[b"envwright.versions"])) == {"envwright", "pyarrow"}


def test_writing_twice_gives_the_same_bytes_and_replaces_the_file(path: Path):
    write_dataset(path, INSTANCES, PromptStyle.BOARD, {"seed": 1})
    first = path.read_bytes()
    write_dataset(path, INSTANCES[:1], PromptStyle.BOARD, {"seed": 1})
    assert read_dataset(path) == INSTANCES[:1]
    write_dataset(path, INSTANCES, PromptStyle.BOARD, {"seed": 1})
    assert path.read_bytes() == first


def test_more_columns_than_asked_for_do_no_harm(path: Path):
    write_table(path, TABLE.append_column("note", pa.array(["x"] * len(INSTANCES))))
    assert read_dataset(path) == INSTANCES


def test_a_missing_file_is_named(path: Path):
    with pytest.raises(DataError, match=r"train\.parquet: no such file; check the path"):
        read_dataset(path)


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"not parquet at all" * 100, b"PAR1" + b"\0" * 1_000 + b"PAR1"]
)
def test_a_file_that_is_not_parquet_is_named(path: Path, content: bytes):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"train\.parquet: not a readable Parquet file"):
        read_dataset(path)


def test_a_truncated_file_is_named(path: Path):
    write_dataset(path, INSTANCES, PromptStyle.BOARD, {})
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"train\.parquet: not a readable Parquet file"):
        read_dataset(path)


@pytest.mark.parametrize("column", SCHEMA.names)
def test_a_missing_column_is_named_with_its_file(path: Path, column: str):
    write_table(path, TABLE.drop_columns(column))
    with pytest.raises(DataError, match=rf"train\.parquet: column '{column}' is missing; found "):
        read_dataset(path)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("size", pa.array(["four"] * 20)),
        ("size", pa.array([10**9] * 20)),
        ("size", pa.array([4.5] * 20)),
        ("size", pa.array([None] * 20, pa.int8())),
        ("sum_of_costs", pa.array([2**40] * 20)),
        ("holes", pa.array(["(0,0)"] * 20)),
        ("starts", pa.array([{"row": 0}] * 20)),
        ("wait_required", pa.array(["perhaps"] * 20)),
    ],
)
def test_a_column_of_the_wrong_type_is_named_with_its_file(path: Path, column: str, values: pa.Array):
    write_table(path, with_column(column, values))
    with pytest.raises(
        DataError,
        match=rf"train\.parquet: column '{column}' does not hold {SCHEMA.field(column).type}".replace(
            "[", r"\["
        ),
    ):
        read_dataset(path)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("size", pa.array([0] * 20, pa.int8())),
        ("holes", pa.array([[[0, 0], [0, 0]]] * 20, STARTS)),
        ("starts", pa.array([[[0, None]]] * 20, STARTS)),
        ("plan", pa.array([[]] * 20, PLAN)),
        ("plan", pa.array([[None]] * 20, PLAN)),
        ("plan", pa.array([[["FLY"]]] * 20, PLAN)),
        ("plan", pa.array([[[None]]] * 20, PLAN)),
        ("sum_of_costs", pa.array([-1] * 20, pa.int16())),
        ("sum_of_costs", pa.array([99] * 20, pa.int16())),
        ("makespan", pa.array([0] * 20, pa.int16())),
        ("plan", pa.array([[[]]] * 20, PLAN)),
    ],
)
def test_a_row_that_is_no_instance_is_named_with_its_file(path: Path, column: str, values: pa.Array):
    write_table(path, with_column(column, values))
    with pytest.raises(DataError, match=r"train\.parquet: row 0: not an instance: ") as caught:
        read_dataset(path)
    assert "pydantic" not in str(caught.value)
    assert len(str(caught.value)) < 400


HOSTILE = {
    "a negative cell": (
        {"starts": [[-1, 0], [2, 0]]},
        "start.0: Input should be greater than or equal to 0 (got -1)",
    ),
    "a start on a hole": ({"holes": [[0, 0]]}, "start (0, 0) lies on a hole; move it to a frozen cell"),
    "another number of goals": ({"goals": [[0, 2]]}, "make the file with 'envwright generate'"),
}


@pytest.mark.parametrize(("fields", "complaint"), HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_row_is_refused_with_field_and_value(path: Path, fields: dict, complaint: str):
    problem = make_problem(3, (), ((0, 0), (2, 2)), ((0, 2), (2, 0)))
    row = row_of(Instance(problem=problem, solution=solve(problem)), PromptStyle.BOARD)
    write_table(path, pa.Table.from_pylist([row, {**row, **fields}], schema=SCHEMA))
    with pytest.raises(DataError) as caught:
        read_dataset(path)
    assert str(caught.value).startswith(f"{path}: row 1: not an instance: ")
    assert complaint in str(caught.value)


def test_only_the_columns_of_the_given_schema_are_read_in_its_order(path: Path):
    write_table(path, TABLE)
    schema = pa.schema([SCHEMA.field("prompt"), SCHEMA.field("id")])
    assert read_table(path, schema) == TABLE.select(["prompt", "id"])


def with_column(name: str, values: pa.Array) -> pa.Table:
    return TABLE.set_column(TABLE.column_names.index(name), name, values)
