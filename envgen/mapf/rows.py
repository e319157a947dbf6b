"""Instances and verdicts as rows of Parquet files."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from envgen.errors import DataError, describe_validation_error
from envgen.mapf.problem import Agent, Instance, Problem, Solution, moves_of, path_of
from envgen.mapf.prompts import PromptStyle, prompt
from envgen.mapf.verifier import FailureCategory, Verdict

_CELL = pa.list_(pa.int8(), 2)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata={"doc": "canonical identity, 32 hex digits"}),
        pa.field("size", pa.int8(), nullable=False),
        pa.field("num_agents", pa.int8(), nullable=False),
        pa.field(
            "holes",
            pa.list_(_CELL),
            nullable=False,
            metadata={"doc": "(row, column), 0-indexed from the top left"},
        ),
        pa.field("starts", pa.list_(_CELL), nullable=False),
        pa.field("goals", pa.list_(_CELL), nullable=False),
        pa.field("sum_of_costs", pa.int16(), nullable=False, metadata={"doc": "optimal, in steps"}),
        pa.field("makespan", pa.int16(), nullable=False, metadata={"doc": "of the stored plan, in steps"}),
        pa.field("wait_required", pa.bool_(), nullable=False),
        pa.field(
            "waits",
            pa.int16(),
            nullable=False,
            metadata={"doc": "waits of the stored plan; no optimal plan has fewer"},
        ),
        pa.field(
            "plan",
            pa.list_(pa.list_(pa.string())),
            nullable=False,
            metadata={"doc": "moves of each agent up to its last arrival"},
        ),
        pa.field("prompt", pa.string(), nullable=False),
    ]
)

VERDICT_SCHEMA = pa.schema(
    [
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


def row_of(instance: Instance, style: PromptStyle) -> dict[str, Any]:
    """An instance as a row of `SCHEMA`, its prompt included."""
    problem, solution = instance.problem, instance.solution
    return {
        "id": problem.id,
        "size": problem.size,
        "num_agents": problem.num_agents,
        "holes": problem.holes,
        "starts": [agent.start for agent in problem.agents],
        "goals": [agent.goal for agent in problem.agents],
        "sum_of_costs": solution.sum_of_costs,
        "makespan": solution.makespan,
        "wait_required": solution.wait_required,
        "waits": solution.waits,
        "plan": [moves_of(path) for path in solution.plan],
        "prompt": prompt(problem, style),
    }


def instance_of_row(row: Mapping[str, Any], where: str) -> Instance:
    """An instance from a row of `SCHEMA`; DataError names `where`, field and value."""
    try:
        agents = tuple(
            Agent(start=tuple(start), goal=tuple(goal))
            for start, goal in zip(row["starts"], row["goals"], strict=True)
        )
        problem = Problem(
            id=row["id"], size=row["size"], holes=tuple(map(tuple, row["holes"])), agents=agents
        )
        plan = tuple(path_of(agent.start, moves) for agent, moves in zip(agents, row["plan"], strict=True))
        solution = Solution(
            sum_of_costs=row["sum_of_costs"],
            makespan=row["makespan"],
            wait_required=row["wait_required"],
            waits=row["waits"],
            plan=plan,
        )
    except ValidationError as error:
        raise DataError(describe_validation_error(error, f"{where}: not an instance")) from None
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{where}: not an instance: {error}; make the file with 'envwright generate' "
            "or 'envwright convert'"
        ) from None
    arrivals = [len(path) - 1 for path in plan]
    if [path[-1] for path in plan] != [agent.goal for agent in agents] or (sum(arrivals), max(arrivals)) != (
        solution.sum_of_costs,
        solution.makespan,
    ):
        raise DataError(
            f"{where}: not an instance: sum_of_costs {solution.sum_of_costs} and makespan "
            f"{solution.makespan} are not those of the plan, "
            "or the plan misses a goal; make the file with 'envwright generate' or 'envwright convert'"
        )
    return Instance(problem=problem, solution=solution)


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """A verdict as a row of `VERDICT_SCHEMA`."""
    return {
        "valid": verdict.valid,
        "optimal": verdict.optimal,
        "category": verdict.category,
        "agent": verdict.agent,
        "step": verdict.step,
        "cell": verdict.cell,
        "detail": verdict.detail,
        "plan_sum_of_costs": verdict.sum_of_costs,
        "plan_makespan": verdict.makespan,
        "arrived": verdict.arrived,
        "legal_steps": verdict.legal_steps,
        "legal_share": verdict.legal_share,
    }


def verdict_of_row(row: Mapping[str, Any]) -> Verdict:
    """The verdict of a row of `VERDICT_SCHEMA`."""
    return Verdict(
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
    )
