"""Rollouts: instance, completion and verdict, one row each, as Parquet."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ConfigDict, SkipValidation

from envgen.breakdown import Breakdown, Judged, count_verdicts
from envgen.dataset import USUAL, family_of, read_table, with_family, write_table
from envgen.families import FamilySpec
from envgen.family import Instance, TaskFamily, Verdict
from envgen.frozen import Frozen

ANSWER_FIELDS = [
    pa.field("completion", pa.string(), nullable=False),
    pa.field("completion_tokens", pa.int32(), nullable=False),
    pa.field("truncated", pa.bool_(), nullable=False),
]


class Rollout(Frozen):
    """One answer of a policy to one instance."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    instance: SkipValidation[Instance]
    completion: str
    completion_tokens: int
    truncated: bool
    """Whether the answer hit the token limit."""
    verdict: SkipValidation[Verdict]


def rollout_schema(family: TaskFamily) -> pa.Schema:
    """Columns of a rollout: those of its instance, of its completion and of its verdict."""
    return pa.schema([*family.schema, *ANSWER_FIELDS, *family.verdict_schema])


def write_rollouts(path: Path, rollouts: Sequence[Rollout], style: str, family: FamilySpec = USUAL) -> None:
    """Write rollouts atomically, in order."""
    of = family.load()
    rows = [
        {
            **of.row(rollout.instance, style),
            "completion": rollout.completion,
            "completion_tokens": rollout.completion_tokens,
            "truncated": rollout.truncated,
            **of.verdict_row(rollout.verdict),
        }
        for rollout in rollouts
    ]
    write_table(path, with_family(pa.Table.from_pylist(rows, schema=rollout_schema(of)), family))


def read_rollouts(path: Path) -> list[Rollout]:
    """Rollouts of a file, in order; DataError if it is missing or of another schema."""
    family = family_of(path).load()
    verdict_columns = family.verdict_schema.names

    def rollout(index: int, row: dict[str, Any]) -> Rollout:
        return Rollout(
            instance=family.instance(row, f"{path}: row {index}"),
            completion=row["completion"],
            completion_tokens=row["completion_tokens"],
            truncated=row["truncated"],
            verdict=family.verdict({name: row[name] for name in verdict_columns}),
        )

    rows = read_table(path, rollout_schema(family)).to_pylist()
    return [rollout(index, row) for index, row in enumerate(rows)]


def breakdown_of(family: TaskFamily, rollouts: Iterable[Rollout]) -> Breakdown:
    """Failure breakdown of rollouts."""
    return count_verdicts(
        family.space,
        (
            Judged(
                stratum=one.instance.stratum,
                verdict=one.verdict,
                labels=one.instance.labels,
                measures=family.measures(one.instance, one.verdict),
                truncated=one.truncated,
            )
            for one in rollouts
        ),
    )
