"""The columns of `train_log.parquet`, and what is read from it. Imports without torch."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
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


STRATUM_METRICS = tuple(field.name for field in _STRATUM)[1:]
ROUNDING = 1e-2


def stratum_metrics(
    strata: Sequence[str], advantages: np.ndarray, valid: np.ndarray, group: int
) -> list[dict[str, Any]]:
    """Return the entry of each stratum in a step; `group` answers in a row share a prompt.

    `strata`, `advantages` and `valid`, 0 or 1, have one entry an answer.
    """
    flat, names = without_variance(advantages, group), np.array(strata)
    entries = []
    for name in dict.fromkeys(strata):
        members = names == name
        entries.append(
            {
                "stratum": name,
                "answers": float(members.sum()),
                "advantage": float(np.abs(advantages[members]).mean()),
                "valid": float(valid[members].mean()),
                "zero_variance": float(flat[members].mean()),
            }
        )
    return entries


def without_variance(advantages: np.ndarray, group: int) -> np.ndarray:
    """Which answers are in groups whose rewards are all equal, [answers], bool.

    These are groups in which no advantage exceeds rounding: with rewards that differ, the largest is at least
    half of their range, or 1 where advantages are scaled.
    """
    return (np.abs(advantages).reshape(-1, group).max(axis=1) < ROUNDING).repeat(group)


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
