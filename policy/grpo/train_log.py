"""The columns of `train_log.parquet`, and what is read from it. Imports without torch."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from envgen.dataset import read_table
from envgen.space import Space

SERIES = {
    "reward": "reward",
    "valid": "rewards/valid/mean",
    "optimal": "rewards/optimal/mean",
    "zero_variance": "frac_reward_zero_std",
    "entropy": "entropy",
    "clipped": "completions/clipped_ratio",
    "mismatch": "sampling/sampling_logp_difference/mean",
    "mismatch_max": "sampling/sampling_logp_difference/max",
}
"""Column of the training log -> key of the trainer's log and of its progress entries."""
_COUNTS, _MEANS = ("answers", "kept", "tokens"), ("advantage", "valid", "zero_variance")
_NUMBERS = [(name, pa.int32()) for name in _COUNTS] + [(name, pa.float64()) for name in _MEANS]
_STRATUM = pa.struct([("stratum", pa.string()), *_NUMBERS])
_FAILED = pa.struct([(name, pa.string()) for name in ("stratum", "question", "answer", "verdict")])
TRAIN_LOG_SCHEMA = pa.schema(
    [
        ("step", pa.int32()),
        *((name, pa.float64()) for name in (*SERIES, "loss")),
        ("completion_tokens", pa.int32()),
        ("seconds", pa.float64()),
        ("strata", pa.list_(_STRATUM)),
        ("failed", pa.list_(_FAILED)),
    ]
)
"""One row a step: mean reward, shares of valid and optimal answers, share of groups without signal, whose
rewards are all equal, mean token entropy, share of truncated answers, mean and largest absolute difference
between the log-probabilities of vLLM and of the trainer (empty without vLLM), loss, tokens generated, wall
time. Reward, optimal and entropy are of the answers that were trained on, the rest of all that were
generated; these are more where groups were refilled.

`strata` has an entry for each stratum that had answers: its name, how many answers were generated, how many
of them were trained on, the tokens of all, their mean absolute advantage, the share of valid ones, and the
share of those in groups without signal. `failed` has some invalid answers: the ends of question and answer,
and the verdict in words."""
MAX_FAILED = 2
"""Failed answers of a stratum that are kept of a step, and shown of a stage."""

EQUAL = 1e-6
"""Rewards of a group that differ by no more are equal: so far float32 rounds sums of the same terms."""


class Answers(NamedTuple):
    """Generated answers, one entry each; those to one prompt in a row."""

    stratum: list[str]
    tokens: list[int]
    reward: list[float]
    """NaN where an answer could not be scored."""
    valid: list[float]
    used: list[bool]
    """Whether an answer is trained on."""


def has_signal(rewards: Sequence[float], group: int) -> np.ndarray:
    """Which groups have rewards that differ, [groups], bool; `group` rewards in a row share a prompt."""
    groups = _scored(rewards, group)
    return (groups.max(axis=1) - groups.min(axis=1)).filled(0.0) > EQUAL


def stratum_metrics(answers: Answers, group: int) -> list[dict[str, Any]]:
    """Return the entry of each stratum in a step, in the order in which they first appear. Advantages are
    scaled by the standard deviation of their group, whatever `trl.scale_rewards` says."""
    groups = _scored(answers.reward, group)
    centred = groups - groups.mean(axis=1, keepdims=True)
    advantages = np.abs(centred / (groups.std(axis=1, ddof=1, keepdims=True) + 1e-4)).filled(0.0).ravel()
    flat = ~has_signal(answers.reward, group).repeat(group)
    names, valid = np.array(answers.stratum), np.nan_to_num(answers.valid)
    return [
        {
            "stratum": name,
            "answers": int(members.sum()),
            "kept": int(np.array(answers.used)[members].sum()),
            "tokens": int(np.array(answers.tokens)[members].sum()),
            "advantage": float(advantages[members].mean()),
            "valid": float(valid[members].mean()),
            "zero_variance": float(flat[members].mean()),
        }
        for name in dict.fromkeys(answers.stratum)
        for members in [names == name]
    ]


def _scored(rewards: Sequence[float], group: int) -> np.ma.MaskedArray:
    """Rewards by group, [groups, group], without those that could not be scored."""
    return np.ma.masked_invalid(np.array(rewards, dtype=np.float64).reshape(-1, group))


def overall(entries: Sequence[dict[str, Any]], column: str) -> float:
    """Mean of `valid`, `zero_variance` or `advantage` over all answers of a step."""
    return sum(e[column] * e["answers"] for e in entries) / sum(e["answers"] for e in entries)


def read_train_log(path: Path) -> dict[str, list[Any]]:
    """Column name -> values, one a step; DataError if the file is missing or of another schema."""
    return read_table(path, TRAIN_LOG_SCHEMA).to_pydict()


def stratum_means(log: dict[str, list[Any]], column: str) -> dict[str, float]:
    """Stratum -> mean of `advantage`, `valid` or `zero_variance` over a stage's answers, if it had any."""
    totals: dict[str, tuple[float, float]] = {}
    for entry in chain.from_iterable(log["strata"]):
        answers, total = totals.get(entry["stratum"], (0.0, 0.0))
        totals[entry["stratum"]] = answers + entry["answers"], total + entry[column] * entry["answers"]
    return {name: total / answers for name, (answers, total) in totals.items()}


def stratum_series(
    space: Space, rows: Iterable[tuple[int, Sequence[dict[str, Any]]]]
) -> dict[str, list[tuple[int, float]]]:
    """Return `train/valid/STRATUM` and `train/zero_variance/STRATUM` -> (step, value)."""
    series = defaultdict[str, list[tuple[int, float]]](list)
    for step, entries in rows:
        for entry, name in product(entries, ("valid", "zero_variance")):
            series[f"train/{name}/{space.label(entry['stratum'])}"].append((step, entry[name]))
    return series


def some_failed(failed: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return the last `MAX_FAILED` of each stratum, in order."""
    last, counts = list[dict[str, str]](), Counter[str]()
    for entry in reversed(failed):
        counts[entry["stratum"]] += 1
        if counts[entry["stratum"]] <= MAX_FAILED:
            last.insert(0, entry)
    return last
