"""Read `train_log.parquet`. Imports without torch."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from envgen.dataset import read_table
from envgen.mapf.problem import MAX_SIZE, MIN_SIZE
from policy.grpo.train_spec import TRAIN_LOG_COLUMNS

TRAIN_LOG_SCHEMA = pa.schema(
    [pa.field(name, getattr(pa, kind)()) for name, kind in TRAIN_LOG_COLUMNS.items()]
)


def read_train_log(path: Path) -> dict[str, list[Any]]:
    """Column name -> values, one a step; DataError if the file is missing or of another schema."""
    return read_table(path, TRAIN_LOG_SCHEMA).to_pydict()


def mean_advantages(log: dict[str, list[Any]]) -> dict[int, float]:
    """Map size -> mean absolute advantage over all answers of a stage's training; only sizes with answers.

    The advantages are those the trainer used, so they are in its unit: divided by the group's standard
    deviation unless `trl.scale_rewards` says otherwise.
    """
    return _means(log, "advantage")


def zero_variance_shares(log: dict[str, list[Any]]) -> dict[int, float]:
    """Map size -> share of a stage's training groups with equal rewards; only sizes with answers."""
    return _means(log, "zero_variance")


def _means(log: dict[str, list[Any]], column: str) -> dict[int, float]:
    found = {}
    for size in range(MIN_SIZE, MAX_SIZE + 1):
        steps = [
            (value, n)
            for value, n in zip(log[f"{column}_{size}"], log[f"answers_{size}"], strict=True)
            if n and value is not None
        ]
        if steps:
            found[size] = sum(value * n for value, n in steps) / sum(n for _, n in steps)
    return found
