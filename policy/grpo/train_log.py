"""The columns of `train_log.parquet`, and what is read from it. Imports without torch."""

from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from envgen.dataset import read_table

_STRATUM = pa.struct(
    [
        ("stratum", pa.string()),
        ("answers", pa.float64()),
        ("advantage", pa.float64()),
        ("valid", pa.float64()),
        ("zero_variance", pa.float64()),
    ]
)
TRAIN_LOG_SCHEMA = pa.schema(
    [
        ("step", pa.int32()),
        ("reward", pa.float64()),
        ("valid", pa.float64()),
        ("optimal", pa.float64()),
        ("zero_variance", pa.float64()),
        ("entropy", pa.float64()),
        ("clipped", pa.float64()),
        ("mismatch", pa.float64()),
        ("mismatch_max", pa.float64()),
        ("loss", pa.float64()),
        ("completion_tokens", pa.int32()),
        ("seconds", pa.float64()),
        ("strata", pa.list_(_STRATUM)),
    ]
)
"""One row a step: mean reward, shares of valid and optimal answers, share of groups whose rewards are all
equal, mean token entropy, share of truncated answers, mean and largest absolute difference between the
log-probabilities of vLLM and of the trainer (empty without vLLM), loss, tokens generated, wall time. `strata`
has an entry for each stratum that had answers: its name, how many answers these were, their mean absolute
advantage, the share of valid ones, and the share of them in groups whose rewards are all equal."""


def read_train_log(path: Path) -> dict[str, list[Any]]:
    """Column name -> values, one a step; DataError if the file is missing or of another schema."""
    return read_table(path, TRAIN_LOG_SCHEMA).to_pydict()


def stratum_means(log: dict[str, list[Any]], column: str) -> dict[str, float]:
    """Stratum -> mean of `advantage`, `valid` or `zero_variance` over a stage's answers, if it had any.

    Advantages are absolute and in the unit of the trainer: divided by the group's standard deviation unless
    `trl.scale_rewards` says otherwise.
    """
    totals: dict[str, tuple[float, float]] = {}
    for entry in chain.from_iterable(log["strata"]):
        answers, total = totals.get(entry["stratum"], (0.0, 0.0))
        totals[entry["stratum"]] = answers + entry["answers"], total + entry[column] * entry["answers"]
    return {name: total / answers for name, (answers, total) in totals.items()}
