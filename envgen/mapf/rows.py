"""Instances and verdicts as rows of Parquet files."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from envgen.errors import DataError, describe_validation_error
from envgen.mapf.problem import Agent, Instance, Problem, Solution, moves_of, path_of
from envgen.mapf.prompts import PromptStyle, prompt
from envgen.mapf.verifier import Verdict


def _field(name: str, type: pa.DataType, doc: str = "", nullable: bool = False) -> pa.Field:
    return pa.field(name, type, nullable=nullable, metadata={"doc": doc} if doc else None)


_CELL = pa.list_(pa.int8(), 2)
SCHEMA = pa.schema(
    [
        _field("id", pa.string(), "canonical identity, 32 hex digits"),
        _field("size", pa.int8()),
        _field("num_agents", pa.int8()),
        _field("holes", pa.list_(_CELL), "(row, column), 0-indexed from the top left"),
        _field("starts", pa.list_(_CELL)),
        _field("goals", pa.list_(_CELL)),
        _field("sum_of_costs", pa.int16(), "optimal, in steps"),
        _field("makespan", pa.int16(), "of the stored plan, in steps"),
        _field("wait_required", pa.bool_()),
        _field("waits", pa.int16(), "waits of the stored plan; no optimal plan has fewer"),
        _field("plan", pa.list_(pa.list_(pa.string())), "moves of each agent up to its last arrival"),
        _field("prompt", pa.string()),
    ]
)
VERDICT_SCHEMA = pa.schema(
    [
        _field("valid", pa.bool_()),
        _field("optimal", pa.bool_()),
        _field("category", pa.string(), "failure category, null if valid", nullable=True),
        _field("agent", pa.int8(), "first offending agent", nullable=True),
        _field("step", pa.int16(), "first offending step, 0 is the start", nullable=True),
        _field("cell", pa.list_(pa.int16()), nullable=True),
        _field("detail", pa.string()),
        _field("plan_sum_of_costs", pa.int16(), "of the answer, null if invalid", nullable=True),
        _field("plan_makespan", pa.int16(), nullable=True),
        _field("arrived", pa.float64(), "share of agents whose path ends on their goal"),
        _field("legal_steps", pa.int16(), "steps before the first violation"),
        _field("legal_share", pa.float64(), "the same as a share of the plan's length"),
    ]
)
_COLUMNS = dict(zip(Verdict.model_fields, VERDICT_SCHEMA.names, strict=True))
"""Field of a verdict -> its column; in a row of answers the costs of an instance have the plain names."""


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
        holes = tuple(map(tuple, row["holes"]))
        problem = Problem(id=row["id"], size=row["size"], holes=holes, agents=agents)
        plan = tuple(path_of(agent.start, moves) for agent, moves in zip(agents, row["plan"], strict=True))
        said = {name: row[name] for name in ("sum_of_costs", "makespan", "wait_required", "waits")}
        solution = Solution(**said, plan=plan)
    except ValidationError as error:
        raise DataError(describe_validation_error(error, f"{where}: not an instance")) from None
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{where}: not an instance: {error}; make the file with 'envwright generate'"
        ) from None
    costs = [len(path) - 1 for path in plan]
    goals = [path[-1] for path in plan] == [agent.goal for agent in agents]
    if not goals or (sum(costs), max(costs)) != (solution.sum_of_costs, solution.makespan):
        raise DataError(
            f"{where}: not an instance: sum_of_costs {solution.sum_of_costs} and makespan "
            f"{solution.makespan} are not those of the plan, "
            "or the plan misses a goal; make the file with 'envwright generate'"
        )
    return Instance(problem=problem, solution=solution)


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """A verdict as a row of `VERDICT_SCHEMA`."""
    return {column: getattr(verdict, name) for name, column in _COLUMNS.items()}


def verdict_of_row(row: Mapping[str, Any]) -> Verdict:
    """The verdict of a row of `VERDICT_SCHEMA`."""
    return Verdict(**{name: row[column] for name, column in _COLUMNS.items()})
