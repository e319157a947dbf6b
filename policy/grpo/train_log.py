"""Read `train_log.parquet`. Imports without torch."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from envgen.dataset import read_table
from policy.grpo.train_spec import STRATUM_COLUMNS, TRAIN_LOG_COLUMNS


def _fields(columns: dict[str, str]) -> list[pa.Field]:
    return [pa.field(name, getattr(pa, kind)()) for name, kind in columns.items()]


TRAIN_LOG_SCHEMA = pa.schema(
    [*_fields(TRAIN_LOG_COLUMNS), pa.field("strata", pa.list_(pa.struct(_fields(STRATUM_COLUMNS))))]
)


def read_train_log(path: Path) -> dict[str, list[Any]]:
    """Column name -> values, one a step; DataError if the file is missing or of another schema."""
    return read_table(path, TRAIN_LOG_SCHEMA).to_pydict()


def mean_advantages(log: dict[str, list[Any]]) -> dict[str, float]:
    """Stratum -> mean absolute advantage over all answers of a stage's training; only those with answers.

    The advantages are those the trainer used, so they are in its unit: divided by the group's standard
    deviation unless `trl.scale_rewards` says otherwise.
    """
    return _means(log, "advantage")


def zero_variance_shares(log: dict[str, list[Any]]) -> dict[str, float]:
    """Stratum -> share of a stage's training groups with equal rewards; only those with answers."""
    return _means(log, "zero_variance")


def _means(log: dict[str, list[Any]], column: str) -> dict[str, float]:
    totals: dict[str, tuple[float, float]] = {}
    for entry in (one for step in log["strata"] for one in step):
        total, answers = totals.get(entry["stratum"], (0.0, 0.0))
        totals[entry["stratum"]] = total + entry[column] * entry["answers"], answers + entry["answers"]
    return {name: total / answers for name, (total, answers) in totals.items()}
