"""Damaged Parquet files: one message, whatever is damaged, and never the end of the process."""

import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envgen.dataset import read_dataset, read_table, write_table
from envgen.errors import DataError
from envgen.parquet_footer import values_by_column

SCHEMA = pa.schema([("id", pa.string()), ("cells", pa.list_(pa.list_(pa.int64()))), ("rate", pa.float64())])
ROWS = [{"id": f"row {i}", "cells": [[i, 2], [3]], "rate": i / 7} for i in range(200)]
READ_ALL = """
import sys
from pathlib import Path
import pyarrow as pa
from envgen.dataset import read_table
from envgen.errors import DataError
schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(sys.argv[2])))
whole = read_table(Path(sys.argv[1], "whole"), schema)
for path in sorted(Path(sys.argv[1]).glob("damaged-*")):
    try:
        rows = read_table(path, schema)
        rows.to_pylist()
        print("same" if rows.equals(whole) else "other", path.name)
    except DataError:
        print("refused", path.name)
"""


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one thing wrong."""
    at, length = rng.randrange(len(data)), rng.randrange(1, 30)
    if rng.random() < 0.5:
        # The footer is where a length or an offset leads astray.
        at = len(data) - 1 - rng.randrange(min(len(data), 1500))
    return rng.choice(
        [
            data[:at],
            data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :],
            data[:at] + rng.randbytes(length) + data[at + length :],
            data[:at] + bytes(length) + data[at + length :],
            data[:at] + data[at + length :],
            data[:at] + rng.randbytes(length) + data[at:],
        ]
    )


def test_a_thousand_damaged_files_end_no_process_and_change_no_page(tmp_path: Path):
    write_table(tmp_path / "whole", pa.Table.from_pylist(ROWS, SCHEMA))
    data, rng = (tmp_path / "whole").read_bytes(), random.Random(1)
    for number in range(1000):
        (tmp_path / f"damaged-{number}").write_bytes(damaged(data, rng))
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, tmp_path, SCHEMA.serialize().to_pybytes().hex()],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(said) == 1000
    # What the footer alone says (how many rows there are) has no checksum.
    assert said.count("refused") > 500
    assert said.count("other") <= 10


def test_text_that_is_no_utf8_is_refused(tmp_path: Path):
    column = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
    )
    pq.write_table(pa.table({"id": column}), tmp_path / "text")
    with pytest.raises(DataError, match="text: not a readable Parquet file"):
        read_table(tmp_path / "text", pa.schema([("id", pa.string())]))


def test_a_changed_page_is_refused_by_its_checksum(tmp_path: Path):
    path = tmp_path / "data"
    write_table(path, pa.table({"id": ["k3v9z0qTr81mWp"]}))
    path.write_bytes(path.read_bytes().replace(b"k3v9z0qTr81mWp", b"k3v9z0qTr81mWq", 1))
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read_table(path, pa.schema([("id", pa.string())]))


def test_values_are_counted_as_pyarrow_counts_them(tmp_path: Path):
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    pq.write_table(table, tmp_path / "data", row_group_size=64)
    metadata = pq.ParquetFile(tmp_path / "data").metadata
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    assert values_by_column(tmp_path / "data") == [
        (column.path_in_schema.split(".")[0], column.num_values)
        for group in groups
        for column in map(group.column, range(group.num_columns))
    ]


@given(st.binary(max_size=300))
def test_any_bytes_as_a_footer_are_refused_or_counted(tmp_path_factory, footer: bytes):
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    try:
        counted = values_by_column(path)
    except ValueError:
        return
    assert all(count >= 0 for _, count in counted)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" * 3, b"x" * 1000, b"PAR1" + b"\xff" * 8 + b"PAR1"])
def test_what_is_no_parquet_file_is_refused(tmp_path: Path, data: bytes):
    (tmp_path / "data").write_bytes(data)
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read_dataset(tmp_path / "data")
