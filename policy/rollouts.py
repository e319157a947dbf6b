"""Rollouts: instance, completion and verdict, one row each, as Parquet."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
from pydantic import ConfigDict, SkipValidation

from envgen.breakdown import Breakdown, Judged, count_verdicts
from envgen.dataset import USUAL, environment_of, read_table, with_environment, write_table
from envgen.environment import Environment, Instance, Verdict
from envgen.frozen import Frozen
from envgen.registry import EnvironmentSpec
from envgen.rows import instance_of, instance_row, instance_schema, model_columns, model_of, model_row

_ANSWER = pa.schema(
    [
        pa.field("completion", pa.string(), nullable=False),
        pa.field("completion_tokens", pa.int32()),
        pa.field("truncated", pa.bool_(), nullable=False),
    ]
)


class Rollout(Frozen):
    """One answer of a policy to one instance."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    instance: SkipValidation[Instance]
    completion: str
    completion_tokens: int | None
    """None if a server did not report them."""
    truncated: bool
    """Whether the answer hit the token limit."""
    verdict: SkipValidation[Verdict]


def write_rollouts(
    path: Path, rollouts: Sequence[Rollout], style: str, environment: EnvironmentSpec = USUAL
) -> None:
    """Write rollouts atomically, in order: columns of the instance, of the answer and of the verdict."""
    of = environment.load()
    rows = [
        {
            **instance_row(of, rollout.instance, style),
            **{name: getattr(rollout, name) for name in _ANSWER.names},
            **model_row(rollout.verdict),
        }
        for rollout in rollouts
    ]
    write_table(path, with_environment(pa.Table.from_pylist(rows, schema=_schema(of)), environment))


def read_rollouts(path: Path) -> list[Rollout]:
    """Rollouts of a file, in order; DataError if it is missing or of another schema."""
    environment = environment_of(path).load()
    return [
        Rollout(
            instance=instance_of(environment, row, f"{path}: row {index}"),
            verdict=model_of(environment.verdict_type, row, f"{path}: row {index}: not a verdict"),
            **{name: row[name] for name in _ANSWER.names},
        )
        for index, row in enumerate(read_table(path, _schema(environment)).to_pylist())
    ]


def _schema(environment: Environment) -> pa.Schema:
    return pa.schema([*instance_schema(environment), *_ANSWER, *model_columns(environment.verdict_type)])


def breakdown_of(environment: Environment, rollouts: Iterable[Rollout], samples: int = 1) -> Breakdown:
    """Failure breakdown of rollouts. `samples`: answers to each instance, which stand in a row."""
    judged = (
        Judged(
            stratum=rollout.instance.stratum,
            verdict=rollout.verdict,
            labels=rollout.instance.labels,
            measures=environment.measures(rollout.instance, rollout.verdict),
            truncated=rollout.truncated,
        )
        for rollout in rollouts
    )
    return count_verdicts(environment.space, judged, samples)
