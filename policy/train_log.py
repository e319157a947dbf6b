"""Read `train_log.parquet`. Imports without torch."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from envgen.dataset import read_table
from policy.train_spec import TRAIN_LOG_COLUMNS

TRAIN_LOG_SCHEMA = pa.schema([pa.field(name, getattr(pa, kind)()) for name, kind in TRAIN_LOG_COLUMNS.items()])


def read_train_log(path: Path) -> dict[str, list[Any]]:
    """Column name -> values, one a step; DataError if the file is missing or of another schema."""
    return read_table(path, TRAIN_LOG_SCHEMA).to_pydict()
