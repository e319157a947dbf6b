"""Rollouts: instance, completion and verdict, one row each, as Parquet."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from envgen.breakdown import Breakdown, count_verdicts
from envgen.dataset import SCHEMA, instance_of_row, read_table, to_table, write_table
from envgen.frozen import Frozen
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.verifier import FailureCategory, Verdict

ROLLOUT_SCHEMA = pa.schema(
    [
        *SCHEMA,
        pa.field("completion", pa.string(), nullable=False),
        pa.field("completion_tokens", pa.int32(), nullable=False),
        pa.field("truncated", pa.bool_(), nullable=False),
        pa.field("valid", pa.bool_(), nullable=False),
        pa.field("optimal", pa.bool_(), nullable=False),
        pa.field("category", pa.string(), metadata={"doc": "failure category, null if valid"}),
        pa.field("agent", pa.int8(), metadata={"doc": "first offending agent"}),
        pa.field("step", pa.int16(), metadata={"doc": "first offending step, 0 is the start"}),
        pa.field("cell", pa.list_(pa.int16())),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("plan_sum_of_costs", pa.int16(), metadata={"doc": "of the answer, null if invalid"}),
        pa.field("plan_makespan", pa.int16()),
        pa.field(
            "arrived",
            pa.float64(),
            nullable=False,
            metadata={"doc": "share of agents whose path ends on their goal"},
        ),
        pa.field(
            "legal_steps", pa.int16(), nullable=False, metadata={"doc": "steps before the first violation"}
        ),
        pa.field(
            "legal_share",
            pa.float64(),
            nullable=False,
            metadata={"doc": "the same as a share of the plan's length"},
        ),
    ]
)


class Rollout(Frozen):
    """One answer of a policy to one instance."""

    instance: Instance
    completion: str
    completion_tokens: int
    truncated: bool
    """Whether the answer hit the token limit."""
    verdict: Verdict


def write_rollouts(path: Path, rollouts: list[Rollout], style: PromptStyle) -> None:
    """Write rollouts atomically, in order."""
    rows = [
        {
            **instance_row,
            "completion": r.completion,
            "completion_tokens": r.completion_tokens,
            "truncated": r.truncated,
            "valid": r.verdict.valid,
            "optimal": r.verdict.optimal,
            "category": r.verdict.category,
            "agent": r.verdict.agent,
            "step": r.verdict.step,
            "cell": r.verdict.cell,
            "detail": r.verdict.detail,
            "plan_sum_of_costs": r.verdict.sum_of_costs,
            "plan_makespan": r.verdict.makespan,
            "arrived": r.verdict.arrived,
            "legal_steps": r.verdict.legal_steps,
            "legal_share": r.verdict.legal_share,
        }
        for instance_row, r in zip(
            to_table([r.instance for r in rollouts], style).to_pylist(), rollouts, strict=True
        )
    ]
    write_table(path, pa.Table.from_pylist(rows, schema=ROLLOUT_SCHEMA))


def read_rollouts(path: Path) -> list[Rollout]:
    """Rollouts of a file, in order; DataError if it is missing or of another schema."""
    table = read_table(path, ROLLOUT_SCHEMA)
    return [
        Rollout(
            instance=instance_of_row(row, f"{path}: row {index}"),
            completion=row["completion"],
            completion_tokens=row["completion_tokens"],
            truncated=row["truncated"],
            verdict=Verdict(
                valid=row["valid"],
                optimal=row["optimal"],
                category=FailureCategory(row["category"]) if row["category"] else None,
                agent=row["agent"],
                step=row["step"],
                cell=tuple(row["cell"]) if row["cell"] else None,
                detail=row["detail"],
                sum_of_costs=row["plan_sum_of_costs"],
                makespan=row["plan_makespan"],
                arrived=row["arrived"],
                legal_steps=row["legal_steps"],
                legal_share=row["legal_share"],
            ),
        )
        for index, row in enumerate(table.to_pylist())
    ]


def breakdown_of(rollouts: Iterable[Rollout]) -> Breakdown:
    """Failure breakdown of rollouts, with the mean excess cost of valid answers.

    It also counts the truncated answers, and those where a wait is needed.
    """
    by_size: dict[int, list[Rollout]] = {}
    for rollout in rollouts:
        by_size.setdefault(rollout.instance.problem.size, []).append(rollout)
    counts = count_verdicts((size, rollout.verdict) for size, group in by_size.items() for rollout in group)
    return Breakdown(
        sizes={
            size: part.model_copy(
                update={
                    "excess_cost": _excess_cost(by_size[size]),
                    "truncated": sum(rollout.truncated for rollout in by_size[size]),
                    "waiting": sum(rollout.instance.solution.wait_required for rollout in by_size[size]),
                    "waiting_valid": sum(
                        rollout.verdict.valid
                        for rollout in by_size[size]
                        if rollout.instance.solution.wait_required
                    ),
                }
            )
            for size, part in counts.sizes.items()
        }
    )


def _excess_cost(rollouts: list[Rollout]) -> float | None:
    excesses = [
        r.verdict.sum_of_costs - r.instance.solution.sum_of_costs
        for r in rollouts
        if r.verdict.sum_of_costs is not None
    ]
    return sum(excesses) / len(excesses) if excesses else None
